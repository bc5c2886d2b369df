/* Requests and operations: after request.py. What a coroutine awaits, and what the kernel makes of it.
 *
 * A request is its own iterator, so that an `await` makes no object: the first send gives the request itself to whoever
 * drives the coroutine. The driver resumes by sending a `Resume`, which carries the result and cannot be taken for a
 * first send, even if the result is None. A generator may also yield a request by hand: `awaited` is not set then, and
 * the generator is sent the plain result.
 *
 * What needs no wait is answered on the spot, where that makes no difference to the law: the await then does not suspend
 * the coroutine at all. `on_the_spot` says when. What is billed, taken and decided is the same as on the long way.
 *
 * Requests that are written in C have a table of functions (RequestVT); Python classes derive from these types and have
 * methods. `request_perform` and `operation_delist` do not care which.
 */

#include "python/ops/request.h"
#include "python/law/ledger_fast.h"
#include "python/law/task.h"
#include "python/law/wait.h"
#include "python/law/wake.h"
#include "python/ops/request_fast.h"

/* ---- Resume */

static int
resume_traverse(Resume *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->value);
    Py_VISIT(self->stop);
    return 0;
}

static int
resume_clear(Resume *self)
{
    Py_CLEAR(self->value);
    Py_CLEAR(self->stop);
    return 0;
}

void
resume_dealloc(Resume *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    resume_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot resume_slots[] = {
    {Py_tp_doc, "What a coroutine is resumed with."},
    {Py_tp_traverse, resume_traverse},
    {Py_tp_clear, resume_clear},
    {Py_tp_dealloc, resume_dealloc},
    {0, NULL},
};

PyType_Spec resume_spec = {
    .name = "bursar._native.Resume",
    .basicsize = sizeof(Resume),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = resume_slots,
};

Resume *
resume_new(ModuleState *st)
{
    Resume *self = PyObject_GC_New(Resume, st->Resume);
    if (self != NULL) {
        self->value = self->stop = NULL;
        PyObject_GC_Track((PyObject *)self);
    }
    return self;
}

/* ---- being awaited */

/* The first send into a request that might be answered here and now. */
NOINLINE static PySendResult
first_send(Request *self, PyObject **result)
{
    const RequestVT *vt = self->vt;
    Kernel *k = vt->ready_now_in(self);
    Task *task = on_the_spot(k);
    if (task != NULL && k_paid_at_once(k, task, &vt->cost)) {
        *result = vt->take(k, task, self);
        return *result != NULL ? PYGEN_RETURN : PYGEN_ERROR;
    }
    self->awaited = true;
    *result = Py_NewRef((PyObject *)self);
    return PYGEN_NEXT;
}

PySendResult
request_send(PyObject *thing, PyObject *sent, PyObject **result)
{
    Request *self = (Request *)thing;
    if (sent != Py_None) {
        *result = resumed_with(sent);
        return PYGEN_RETURN;
    }
    if (self->vt != NULL && self->vt->ready_now_in != NULL) {
        return first_send(self, result);
    }
    self->awaited = true;
    *result = Py_NewRef(thing);
    return PYGEN_NEXT;
}

/* Raise StopIteration with a value, which is given away. */
void
raise_stop(PyObject *value)
{
    PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
    Py_DECREF(value);
    if (stop != NULL) {
        PyErr_SetObject(PyExc_StopIteration, stop);
        Py_DECREF(stop);
    }
}

PyObject *
as_iteration(PySendResult status, PyObject *result)
{
    if (status == PYGEN_RETURN) {
        raise_stop(result);
    }
    return status == PYGEN_NEXT ? result : NULL;
}

/* Whether nobody could tell this StopIteration from a new one that says None: whoever steps a request by hand may have
 * caught it, and then it knows where. */
static inline bool
is_as_new(PyObject *stop)
{
    const PyStopIterationObject *fields = (PyStopIterationObject *)stop;
    return Py_REFCNT(stop) == 1 && fields->value == Py_None && fields->traceback == NULL && fields->context == NULL &&
           fields->cause == NULL && !fields->suppress_context && fields->notes == NULL && fields->dict == NULL &&
           PyTuple_GET_SIZE(fields->args) == 1 && PyTuple_GET_ITEM(fields->args, 0) == Py_None;
}

/* From 3.12 on an `await` that is resumed asks its request by `send`, and hears the result by a StopIteration. That of a
 * None, which is the result of most, is kept in the box for the next one. */
PyObject *
as_answer(PyObject *sent, PySendResult status, PyObject *result)
{
    if (status != PYGEN_RETURN || result != Py_None || !is_resume(sent)) {
        return as_iteration(status, result);
    }
    Resume *box = (Resume *)sent;
    if (box->stop == NULL || !is_as_new(box->stop)) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, Py_None);
        if (stop == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        Py_XSETREF(box->stop, stop);
    }
    Py_DECREF(result);
    PyErr_SetRaisedException(Py_NewRef(box->stop));
    return NULL;
}

/* The arguments of `throw`: an exception, or as a traceback has them (type, value, traceback). New reference, or NULL
 * with an exception set. */
PyObject *
thrown_of(PyObject *const *args, Py_ssize_t n)
{
    PyObject *value = n > 1 && args[1] != Py_None ? args[1] : NULL, *error = NULL;
    if (n >= 1 && PyExceptionInstance_Check(args[0])) {
        error = Py_NewRef(args[0]);
    } else if (n >= 1 && PyExceptionClass_Check(args[0]) && value != NULL &&
               PyErr_GivenExceptionMatches(value, args[0]) && PyExceptionInstance_Check(value)) {
        error = Py_NewRef(value);
    } else if (n >= 1 && PyExceptionClass_Check(args[0])) {
        error = value != NULL ? PyObject_CallOneArg(args[0], value) : PyObject_CallNoArgs(args[0]);
        if (error == NULL) {
            return NULL;
        }
    }
    if (error == NULL || !PyExceptionInstance_Check(error)) {
        Py_XDECREF(error);
        PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
        return NULL;
    }
    if (n > 2 && args[2] != Py_None && PyException_SetTraceback(error, args[2]) < 0) {
        Py_CLEAR(error);
    }
    return error;
}

static PyObject *
request_py_send(PyObject *self, PyObject *sent)
{
    PyObject *result = NULL;
    PySendResult status = request_send(self, sent, &result);
    return as_answer(sent, status, result);
}

/* From 3.12 on an `await` steps what is no coroutine by this. NULL without an exception is an end with None. */
PyObject *
request_next(PyObject *self)
{
    PyObject *result = NULL;
    PySendResult status = request_send(self, Py_None, &result);
    if (status == PYGEN_RETURN && result == Py_None) {
        Py_DECREF(result);
        return NULL;
    }
    return as_iteration(status, result);
}

/* ---- the table, as Python sees it */

/* Both arguments of a method that Python calls with a kernel and a task or an entry. */
static int
kernel_and(PyObject *self, PyObject *const *args, Py_ssize_t n, Kernel **k, PyObject **other)
{
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || n != 2 || !PyObject_TypeCheck(args[0], st->Kernel)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a native request is performed by a native kernel");
        }
        return -1;
    }
    *k = (Kernel *)args[0];
    *other = args[1];
    return 0;
}

static PyObject *
not_here(const char *what)
{
    PyErr_SetString(PyExc_NotImplementedError, what);
    return NULL;
}

PyObject *
cost_row(const LawCost *cost)
{
    PyObject *row = PyTuple_New(cost->n);
    for (unsigned i = 0; row != NULL && i < cost->n; i++) {
        PyObject *pair = Py_BuildValue("iL", cost->component[i], (long long)cost->amount[i]);
        if (pair == NULL) {
            Py_CLEAR(row);
            break;
        }
        PyTuple_SET_ITEM(row, i, pair);
    }
    return row;
}

static PyObject *
request_py_bill(Request *self, PyObject *Py_UNUSED(unused))
{
    return self->vt != NULL ? cost_row(&self->vt->cost) : PyObject_GetAttrString((PyObject *)self, "cost");
}

static PyObject *
request_py_perform(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *task;
    if (self->vt == NULL) {
        return not_here("perform");
    }
    return kernel_and((PyObject *)self, args, n, &k, &task) < 0 ? NULL : request_perform(k, (Task *)task, self);
}

static PyMethodDef request_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {"send", request_py_send, METH_O, NULL},
    {"bill", (PyCFunction)request_py_bill, METH_NOARGS, "What it costs."},
    {"perform", (PyCFunction)(void (*)(void))request_py_perform, METH_FASTCALL, "Do it."},
    {NULL, NULL, 0, NULL},
};

int
request_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

void
request_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot request_slots[] = {
    {Py_tp_doc, "Something that a task asks of the kernel that drives it."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_traverse, request_traverse},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, request_next},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, request_send},
    {Py_tp_methods, request_methods},
    {0, NULL},
};

PyType_Spec request_spec = {
    .name = "bursar._native.Request",
    .basicsize = sizeof(Request),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = request_slots,
};

/* ---- operations */

static PyObject *
operation_py_why(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyObject_GetAttrString(self, "reason");
}

static PyObject *
operation_py_ready(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *task;
    if (self->vt == NULL) {
        return not_here("ready");
    }
    int ready = kernel_and((PyObject *)self, args, n, &k, &task) < 0 ? -1 : self->vt->ready(k, (Task *)task, self);
    return ready < 0 ? NULL : PyBool_FromLong(ready);
}

static PyObject *
operation_py_take(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *task;
    if (self->vt == NULL) {
        return not_here("take");
    }
    return kernel_and((PyObject *)self, args, n, &k, &task) < 0 ? NULL : self->vt->take(k, (Task *)task, self);
}

static PyObject *
operation_py_enlist(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *entry;
    if (self->vt == NULL) {
        return not_here("enlist");
    }
    if (kernel_and((PyObject *)self, args, n, &k, &entry) < 0 || self->vt->enlist(k, self, entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
operation_py_enlisted(Request *self, PyObject *kernel)
{
    Kernel *k;
    PyObject *args[] = {kernel, Py_None}, *none;
    if (self->vt != NULL && self->vt->enlisted != NULL &&
        (kernel_and((PyObject *)self, args, 2, &k, &none) < 0 || self->vt->enlisted(k, self) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
operation_py_delist(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *entry;
    if (self->vt == NULL) {
        return not_here("delist");
    }
    if (kernel_and((PyObject *)self, args, n, &k, &entry) < 0 || self->vt->delist(k, self, entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
operation_py_blockers(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyTuple_New(0);
}

/* An operation that is written in Python: by its methods, with an entry. */
static PyObject *
perform_by_methods(Kernel *k, Task *task, PyObject *self)
{
    PyObject *ready = PyObject_CallMethod(self, "ready", "OO", (PyObject *)k, (PyObject *)task);
    int yes = ready == NULL ? -1 : PyObject_IsTrue(ready);
    Py_XDECREF(ready);
    if (yes != 0) {
        return yes < 0 ? NULL : PyObject_CallMethod(self, "take", "OO", (PyObject *)k, (PyObject *)task);
    }
    Entry *entry = entry_new(k->st, task, self);
    PyObject *done = NULL, *told = NULL;
    if (entry != NULL) {
        done = PyObject_CallMethod(self, "enlist", "OO", (PyObject *)k, (PyObject *)entry);
    }
    if (done != NULL && k_blocked(k, task, (PyObject *)entry) == 0) {
        told = PyObject_CallMethod(self, "enlisted", "O", (PyObject *)k);
    }
    Py_XDECREF(entry);
    Py_XDECREF(done);
    Py_XDECREF(told);
    return told == NULL ? NULL : Py_NewRef(k->st->SUSPENDED);
}

static PyObject *
operation_py_perform(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *task;
    if (kernel_and((PyObject *)self, args, n, &k, &task) < 0) {
        return NULL;
    }
    return self->vt != NULL ? request_perform(k, (Task *)task, self)
                            : perform_by_methods(k, (Task *)task, (PyObject *)self);
}

#define FAST(name) (PyCFunction)(void (*)(void)) operation_py_##name, METH_FASTCALL

static PyMethodDef operation_methods[] = {
    {"why", operation_py_why, METH_NOARGS, "What a task does that waits for this."},
    {"ready", FAST(ready), "Could it be done now?"},
    {"take", FAST(take), "Do it now."},
    {"enlist", FAST(enlist), "Wait for it."},
    {"enlisted", (PyCFunction)operation_py_enlisted, METH_O, "The task waits now."},
    {"delist", FAST(delist), "Leave the queue, if still in it."},
    {"blockers", operation_py_blockers, METH_NOARGS, "The tasks that can end this wait, where that is known."},
    {"perform", FAST(perform), "Do it, or wait for it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot operation_slots[] = {
    {Py_am_send, request_send}, /* 3.11 does not inherit it */
    {Py_tp_doc, "A request that may have to wait."},
    {Py_tp_traverse, request_traverse},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_methods, operation_methods},
    {0, NULL},
};

PyType_Spec operation_spec = {
    .name = "bursar._native.Operation",
    .basicsize = sizeof(Request),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = operation_slots,
};

/* ---- for the kernel */

/* An operation that is written in C: without an entry, the task waits by itself. */
PyObject *
operation_perform(Kernel *k, Task *task, Request *request)
{
    const RequestVT *vt = request->vt;
    int ready = vt->ready(k, task, request);
    if (ready != 0) {
        return ready < 0 ? NULL : vt->take(k, task, request);
    }
    if (vt->enlist(k, request, (PyObject *)task) < 0 || k_blocked_bare(k, task, request) < 0 ||
        (vt->enlisted != NULL && vt->enlisted(k, request) < 0)) {
        return NULL;
    }
    return Py_NewRef(k->st->SUSPENDED);
}

PyObject *
request_perform(Kernel *k, Task *task, Request *request)
{
    const RequestVT *vt = request->vt;
    if (vt == NULL) {
        return PyObject_CallMethod((PyObject *)request, "perform", "OO", (PyObject *)k, (PyObject *)task);
    }
    return vt->perform != NULL ? vt->perform(k, task, request) : operation_perform(k, task, request);
}

int
operation_delist(Kernel *k, PyObject *operation, PyObject *waiter)
{
    Request *request = (Request *)operation;
    /* Only what is written in C is waited for bare, so that `vt` is there whenever k is NULL. */
    if (is_task(waiter) || (is_request(operation) && request->vt != NULL && request->vt->delist != NULL)) {
        return request->vt->delist(k, request, waiter);
    }
    PyObject *none = PyObject_CallMethod(operation, "delist", "OO", (PyObject *)k, waiter);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}
