/* Requests and operations as Python sees them: the types `Request` and `Operation`, with the methods of their namesakes
 * in src/bursar/request.py.
 *
 * For a request that is written in C a method calls the function in its table (RequestVT). A class in Python overrides
 * the methods, and its `vt` is NULL.
 */

#include "python/law/dispatch_wake.h"
#include "python/law/wait.h"
#include "python/ops/request.h"

/* ---- Request */

/* Read the two arguments of a method: a kernel, and a task or an entry. 0, or -1 with TypeError set. */
static int
read_arguments(PyObject *self, PyObject *const *args, Py_ssize_t n, Kernel **k, PyObject **other)
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
    return read_arguments((PyObject *)self, args, n, &k, &task) < 0 ? NULL : request_perform(k, (Task *)task, self);
}

static PyObject *
request_py_send(PyObject *self, PyObject *sent)
{
    PyObject *result = NULL;
    if (sent == Py_None && !request_may_step((Request *)self)) {
        return NULL;
    }
    PySendResult status = request_send(self, sent, &result);
    return as_answer(sent, status, result);
}

static PyObject *
request_mark_used(Request *self, PyObject *Py_UNUSED(unused))
{
    if (self->step == REQUEST_NEW) {
        self->step = REQUEST_USED;
    }
    Py_RETURN_NONE;
}

static PyMethodDef request_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {"send", request_py_send, METH_O, NULL},
    {"mark_used", (PyCFunction)request_mark_used, METH_NOARGS, "Something performs it without an `await`."},
    {"bill", (PyCFunction)request_py_bill, METH_NOARGS, "What it costs."},
    {"perform", (PyCFunction)(void (*)(void))request_py_perform, METH_FASTCALL, "Do it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot request_slots[] = {
    {Py_tp_doc, "Something that a task asks of the kernel that drives it."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_traverse, request_traverse},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_iter, request_iter},
    {Py_tp_iternext, request_next},
    {Py_am_await, request_await},
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

/* ---- Operation */

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
    int ready = read_arguments((PyObject *)self, args, n, &k, &task) < 0 ? -1 : self->vt->ready(k, (Task *)task, self);
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
    return read_arguments((PyObject *)self, args, n, &k, &task) < 0 ? NULL : self->vt->take(k, (Task *)task, self);
}

static PyObject *
operation_py_enlist(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *entry;
    if (self->vt == NULL) {
        return not_here("enlist");
    }
    if (read_arguments((PyObject *)self, args, n, &k, &entry) < 0 || self->vt->enlist(k, self, entry) < 0) {
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
        (read_arguments((PyObject *)self, args, 2, &k, &none) < 0 || self->vt->enlisted(k, self) < 0)) {
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
    if (read_arguments((PyObject *)self, args, n, &k, &entry) < 0 || self->vt->delist(k, self, entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
operation_py_blockers(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyTuple_New(0);
}

/* Perform an operation that is written in Python: by its methods, with an entry. */
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
    PyObject *done = NULL, *enlisted = NULL;
    if (entry != NULL) {
        done = PyObject_CallMethod(self, "enlist", "OO", (PyObject *)k, (PyObject *)entry);
    }
    if (done != NULL && k_blocked(k, task, (PyObject *)entry) == 0) {
        enlisted = PyObject_CallMethod(self, "enlisted", "O", (PyObject *)k);
    }
    Py_XDECREF(entry);
    Py_XDECREF(done);
    Py_XDECREF(enlisted);
    return enlisted == NULL ? NULL : Py_NewRef(k->st->SUSPENDED);
}

static PyObject *
operation_py_perform(Request *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k;
    PyObject *task;
    if (read_arguments((PyObject *)self, args, n, &k, &task) < 0) {
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
