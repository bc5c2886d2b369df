/* Requests and operations: how a coroutine awaits them, and how the kernel performs them. After src/bursar/request.py.
 *
 * A request is its own iterator, so an `await` makes no object: the first send yields the request itself to the driver.
 * The driver resumes the coroutine by sending a `Resume`, which holds the result. A Resume cannot be confused with a
 * first send, even if the result is None. A generator may also yield a request without awaiting it: it is not
 * REQUEST_YIELDED then, and the driver sends the plain result.
 *
 * A program that forgets `await` may iterate a request: `list(r.receive())`. Such a step would take a message and lose
 * it. So a request can be iterated only after `__await__` was called, and once for each call. `am_send` needs no check:
 * only an `await` and a `yield from` use it, and both get their iterator from `__await__` or `__iter__`.
 *
 * A request that is freed while it is REQUEST_NEW was never awaited, and the program gets a RuntimeWarning. A destructor
 * costs one comparison more.
 *
 * A request that need not wait may be answered where it is awaited, without suspending the coroutine. `running_task` in
 * request_fast.h says when. The bill, the effect and the decisions are the same as by the driver.
 *
 * A request that is written in C has a table of functions (RequestVT). A class in Python has methods instead.
 * `request_perform` and `operation_delist` handle both.
 */

#include "python/ops/request.h"
#include "python/law/dispatch_wake.h"
#include "python/law/ledger_fast.h"
#include "python/law/task.h"
#include "python/module/seam.h"
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

/* The first send into a request that may be answered without waiting. */
NOINLINE static PySendResult
first_send(Request *self, PyObject **result)
{
    const RequestVT *vt = self->vt;
    Kernel *k = vt->ready_now_in(self);
    Task *task = running_task(k);
    if (task != NULL && k_bill_fast(k, task, &vt->cost)) {
        self->step = REQUEST_USED;
        *result = vt->take(k, task, self);
        return *result != NULL ? PYGEN_RETURN : PYGEN_ERROR;
    }
    self->step = REQUEST_YIELDED;
    *result = Py_NewRef((PyObject *)self);
    return PYGEN_NEXT;
}

PyObject *
request_await(PyObject *self)
{
    ((Request *)self)->step = REQUEST_BEGUN;
    return Py_NewRef(self);
}

bool
request_may_step(Request *self)
{
    if (LIKELY(self->step == REQUEST_BEGUN)) {
        return true;
    }
    self->step = REQUEST_USED; /* one complaint is enough: it is no forgotten request any more */
    const char *name = strrchr(Py_TYPE(self)->tp_name, '.');
    name = name != NULL ? name + 1 : Py_TYPE(self)->tp_name;
    PyErr_Format(PyExc_TypeError, "a request (%s) cannot be iterated; write `await` before it", name);
    return false;
}

PyObject *
request_iter(PyObject *self)
{
    return request_may_step((Request *)self) ? Py_NewRef(self) : NULL;
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
    self->step = REQUEST_YIELDED;
    *result = Py_NewRef(thing);
    return PYGEN_NEXT;
}

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

/* Whether this StopIteration equals a new one whose value is None. A program that steps a request itself may have
 * caught and changed it. */
static inline bool
equals_new_stop(PyObject *stop)
{
    const PyStopIterationObject *fields = (PyStopIterationObject *)stop;
    return Py_REFCNT(stop) == 1 && fields->value == Py_None && fields->traceback == NULL && fields->context == NULL &&
           fields->cause == NULL && !fields->suppress_context && fields->notes == NULL && fields->dict == NULL &&
           PyTuple_GET_SIZE(fields->args) == 1 && PyTuple_GET_ITEM(fields->args, 0) == Py_None;
}

/* From 3.12 on, a resumed `await` calls `send` of its request and gets the result in a StopIteration. Most results
 * are None: the Resume keeps the StopIteration of a None for the next answer. */
PyObject *
as_answer(PyObject *sent, PySendResult status, PyObject *result)
{
    if (status != PYGEN_RETURN || result != Py_None || !is_resume(sent)) {
        return as_iteration(status, result);
    }
    Resume *box = (Resume *)sent;
    if (box->stop == NULL || !equals_new_stop(box->stop)) {
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

/* The arguments of `throw` are an exception, or (type, value, traceback). New reference, or NULL with an exception
 * set. */
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

/* From 3.12 on, an `await` steps everything but a coroutine by `__next__`. NULL without an exception: it ended with
 * None. */
PyObject *
request_next(PyObject *self)
{
    PyObject *result = NULL;
    if (!request_may_step((Request *)self)) {
        return NULL;
    }
    PySendResult status = request_send(self, Py_None, &result);
    if (status == PYGEN_RETURN && result == Py_None) {
        Py_DECREF(result);
        return NULL;
    }
    return as_iteration(status, result);
}

int
request_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

COLD void
request_warn_forgotten(const Request *self)
{
    PyObject *pending = PyErr_GetRaisedException();
    PyObject *kind = (PyObject *)Py_TYPE(self), *args[] = {kind};
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || py_require(st, PY_warn_forgotten) == NULL) {
        PyErr_Clear(); /* the interpreter ends */
    } else {
        PyObject *none = py_call(st, PY_warn_forgotten, args, 1);
        if (none == NULL) {
            PyErr_WriteUnraisable(kind); /* the warning is an error */
        }
        Py_XDECREF(none);
    }
    if (pending != NULL) {
        PyErr_SetRaisedException(pending);
    }
}

void
request_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    request_check_used((Request *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- being performed */

/* Perform an operation that is written in C. The task waits bare, without an entry. */
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
    /* A task waits bare only for a request that is written in C. So `vt` is not NULL if `k` is NULL. */
    if (is_task(waiter) || (is_request(operation) && request->vt != NULL && request->vt->delist != NULL)) {
        return request->vt->delist(k, request, waiter);
    }
    PyObject *none = PyObject_CallMethod(operation, "delist", "OO", (PyObject *)k, waiter);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

PyObject *
request_take_nothing(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *Py_UNUSED(request))
{
    Py_RETURN_NONE;
}

int
refuse_thread(const Kernel *k, const char *what)
{
    PyObject *text = PyUnicode_FromString(what);
    PyObject *args[] = {(PyObject *)k, text};
    PyObject *none = text == NULL ? NULL : py_call(k->st, PY_require_thread, args, 2);
    Py_XDECREF(text);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}
