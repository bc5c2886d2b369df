/* `async with nursery() as n`: how a block opens its nursery, and the first step of its exit. After ops/nursery.py.
 *
 * `async with` awaits the block itself at both ends: first the block is the request that opens the nursery, then the
 * request that waits for the children. The exit after a body that ended well or was cancelled is in nursery_exit.c.
 * Every other exit (an error, a second exit) is the Python method `_leave`.
 */

#include "python/ops/nursery_block.h"
#include "python/fast_paths.h"
#include "python/law/nursery.h"
#include "python/law/nursery_ops.h"
#include "python/module/seam.h"
#include "python/ops/handle.h"
#include "python/ops/nursery_exit.h"
#include "python/ops/request.h"

/* ---- entering */

static PyObject *
nursery_block_perform(Kernel *k, Task *task, Request *request)
{
    NurseryBlock *self = (NurseryBlock *)request;
    PyObject *handle = nursery_handle_new(k); /* first: without a handle no code could leave the open nursery */
    Nursery *record = handle == NULL ? NULL : k_open_nursery(k, task, self->name, self->budget, self->capabilities);
    if (record == NULL) {
        Py_XDECREF(handle);
        return NULL;
    }
    record->hold = self->hold;
    record->cancel_on_failure = self->cancel_on_failure;
    if (self->sealed >= 0) {
        record->sealed = self->sealed;
    }
    ((Handle *)handle)->record = Py_NewRef((PyObject *)record);
    if (!PyObject_GC_IsTracked((PyObject *)self)) { /* it is tracked if it states capabilities */
        gc_aside_keep(&k->gc_aside, (PyObject *)self);
    }
    Py_XSETREF(self->kernel, (Kernel *)Py_NewRef((PyObject *)k));
    Py_XSETREF(self->handle, Py_NewRef(handle));
    Py_XSETREF(self->record, record);
    return handle;
}

static const RequestVT nursery_block_vt = {.cost = LAW_ROW_OP, .perform = nursery_block_perform};
static const RequestVT plain_vt = {.cost = LAW_ROW_OP, .quiet = true, .perform = nursery_block_perform};

/* The block of `nursery()`. The collector does not track it before it is entered, because it refers to nothing. NULL
 * with MemoryError set. */
static NurseryBlock *
nursery_block_new_plain(ModuleState *st)
{
    NurseryBlock *self = (NurseryBlock *)free_make(&st->free_blocks, st->NurseryBlock);
    if (self != NULL) {
        self->request.vt = &plain_vt;
        self->budget = Py_NewRef(st->UNSTATED);
        self->cancel_on_failure = true;
        self->sealed = -1;
    }
    return self;
}

static PyObject *
nursery_block_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *name, *budget, *capabilities, *sealed;
    int hold, cancel_on_failure;
    if (!PyArg_ParseTuple(args, "ppUOOO:NurseryBlock", &hold, &cancel_on_failure, &name, &budget, &capabilities,
                          &sealed)) {
        return NULL;
    }
    ModuleState *st = state_of(type);
    PyObject *plain[] = {budget}, *checked = NULL;
    if (st == NULL || (budget != st->UNSTATED && (checked = py_call(st, PY_require_plain, plain, 1)) == NULL)) {
        return NULL;
    }
    Py_XDECREF(checked);
    NurseryBlock *self = nursery_block_new_plain(st);
    if (self != NULL) {
        self->request.vt = &nursery_block_vt; /* not quiet: a mapping of capabilities may run code of the program */
        self->name = PyUnicode_GET_LENGTH(name) > 0 ? Py_NewRef(name) : NULL;
        Py_SETREF(self->budget, Py_NewRef(budget));
        if (capabilities != Py_None) {
            self->capabilities = Py_NewRef(capabilities);
            PyObject_GC_Track((PyObject *)self);
        }
        self->hold = hold != 0;
        self->cancel_on_failure = cancel_on_failure != 0;
        self->sealed = sealed == Py_None ? -1 : sealed == Py_True;
    }
    return (PyObject *)self;
}

PyObject *
nursery_open(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    ModuleState *st = PyModule_GetState(module);
    if (n == 0 && names == NULL && st->adopted) {
        return (PyObject *)nursery_block_new_plain(st);
    }
    PyObject *function = py_require(st, PY_nursery);
    return function == NULL ? NULL : PyObject_Vectorcall(function, args, (size_t)n, names);
}

static PyObject *
nursery_block_enter(NurseryBlock *self, PyObject *Py_UNUSED(unused))
{
    if (self->record != NULL) {
        PyObject *args[] = {(PyObject *)self};
        return py_call(self->kernel->st, PY_entered_twice, args, 1); /* raises ScopeMisuse */
    }
    return Py_NewRef((PyObject *)self);
}

/* ---- leaving */

/* The coroutine in Python that leaves the block, in every case. */
static PyObject *
leave_in_python(NurseryBlock *self, PyObject *error)
{
    return PyObject_CallMethod((PyObject *)self, "_leave", "O", error);
}

/* Whether the owner holds a ticket of a gate, which it lends while it waits for its children. */
static bool
has_ticket(const Task *owner)
{
    return owner->extra != NULL && owner->extra->ticket != NULL;
}

/* Whether the block can be left in C: the body ended well or in a `Cancelled`, its owner runs, was not cut off, and
 * holds no ticket, and the nursery is not to be sealed. The slow twin is `leave_in_python`. */
static bool
is_plain_exit(const NurseryBlock *self, PyObject *error)
{
    const Kernel *k = self->kernel;
    const Task *owner = self->record->owner;
    return FAST_PATHS && (error == NULL || (PyObject *)Py_TYPE(error) == k->st->Cancelled) && k->current == owner &&
           !owner->cut && !has_ticket(owner) && !self->record->sealed && !nursery_block_is_left(self);
}

static PyObject *
nursery_block_exit(NurseryBlock *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 3) {
        PyErr_Format(PyExc_TypeError, "__aexit__() takes 3 arguments, not %zd", n);
        return NULL;
    }
    if (self->record == NULL) {
        return leave_in_python(self, args[1]); /* it was not entered: awaiting this raises ScopeMisuse */
    }
    PyObject *error = args[1] == Py_None ? NULL : args[1];
    if (!is_plain_exit(self, error)) {
        return leave_in_python(self, args[1]);
    }
    if (k_close_nursery(self->kernel, self->record) < 0) {
        return NULL;
    }
    leaving_begin(self, error);
    return Py_NewRef((PyObject *)self);
}

static PyObject *
not_entered(NurseryBlock *self)
{
    return PyObject_CallMethod((PyObject *)self, "entered", NULL); /* raises ScopeMisuse */
}

static PyObject *
nursery_block_why(NurseryBlock *self, PyObject *Py_UNUSED(unused))
{
    if (self->record == NULL) {
        return not_entered(self);
    }
    PyObject *args[] = {(PyObject *)self->record};
    return py_call(self->kernel->st, PY_why_join, args, 1);
}

static PyObject *
nursery_block_blockers(NurseryBlock *self, PyObject *Py_UNUSED(unused))
{
    return self->record == NULL ? not_entered(self) : nursery_children_list(self->record);
}

/* ---- being awaited */

static PySendResult
nursery_block_send(NurseryBlock *self, PyObject *sent, PyObject **result)
{
    return nursery_block_is_left(self) ? leaving_send(self, sent, result)
                                       : request_send((PyObject *)self, sent, result);
}

/* While Python leaves the block, its coroutine checks the steps itself. */
static PyObject *
nursery_block_py_send(NurseryBlock *self, PyObject *sent)
{
    PyObject *result = NULL;
    if (sent == Py_None && self->rest == NULL && !request_may_step(&self->request)) {
        return NULL;
    }
    PySendResult status = nursery_block_send(self, sent, &result);
    return as_iteration(status, result);
}

PyObject *
nursery_block_next(PyObject *self)
{
    return nursery_block_is_left((NurseryBlock *)self) ? nursery_block_py_send((NurseryBlock *)self, Py_None)
                                                       : request_next(self);
}

/* An error that is thrown while the nursery opens is raised at the `await`. */
static PyObject *
nursery_block_throw(NurseryBlock *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *thrown = thrown_of(args, n);
    if (thrown != NULL && nursery_block_is_left(self)) {
        return leaving_throw(self, thrown);
    }
    if (thrown != NULL) {
        PyErr_SetRaisedException(thrown);
    }
    return NULL;
}

static PyObject *
nursery_block_close(NurseryBlock *self, PyObject *Py_UNUSED(unused))
{
    return nursery_block_is_left(self) ? leaving_close(self) : Py_NewRef(Py_None);
}

/* ---- the type */

static int
nursery_block_traverse(NurseryBlock *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->capabilities);
    Py_VISIT(self->handle);
    Py_VISIT(self->kernel);
    Py_VISIT(self->record);
    Py_VISIT(self->error);
    Py_VISIT(self->passing);
    Py_VISIT(self->rest);
    return 0;
}

static int
nursery_block_clear(NurseryBlock *self)
{
    Py_CLEAR(self->capabilities);
    Py_CLEAR(self->handle);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->record);
    Py_CLEAR(self->error);
    Py_CLEAR(self->passing);
    Py_CLEAR(self->rest);
    return 0;
}

static void
nursery_block_dealloc(NurseryBlock *self)
{
    ModuleState *st = state_left(Py_TYPE(self));
    PyObject_GC_UnTrack(self);
    request_check_used(&self->request);
    nursery_block_clear(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->budget);
    free_drop(st ? &st->free_blocks : NULL, (PyObject *)self);
}

static PyMethodDef nursery_block_methods[] = {
    {"__aenter__", (PyCFunction)nursery_block_enter, METH_NOARGS, NULL},
    {"__aexit__", (PyCFunction)(void (*)(void))nursery_block_exit, METH_FASTCALL, NULL},
    {"why", (PyCFunction)nursery_block_why, METH_NOARGS, "What its owner does, which waits for the children."},
    {"blockers", (PyCFunction)nursery_block_blockers, METH_NOARGS, "The children."},
    {"send", (PyCFunction)nursery_block_py_send, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))nursery_block_throw, METH_FASTCALL, NULL},
    {"close", (PyCFunction)nursery_block_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef nursery_block_members[] = {
    {"_nursery", T_OBJECT, offsetof(NurseryBlock, handle), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot nursery_block_slots[] = {
    {Py_tp_doc, "The `async with` part of a nursery."},
    {Py_am_send, nursery_block_send},
    {Py_tp_iternext, nursery_block_next},
    {Py_tp_new, nursery_block_make},
    {Py_tp_traverse, nursery_block_traverse},
    {Py_tp_clear, nursery_block_clear},
    {Py_tp_dealloc, nursery_block_dealloc},
    {Py_tp_methods, nursery_block_methods},
    {Py_tp_members, nursery_block_members},
    {0, NULL},
};

PyType_Spec nursery_block_spec = {
    .name = "bursar._native.NurseryBlock",
    .basicsize = sizeof(NurseryBlock),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = nursery_block_slots,
};
