/* `async with nursery() as n`: opening, and leaving in order. After nursery.py.
 *
 * The block is the request that opens its nursery. Leaving it well or because of a cancellation, by the owner itself, is
 * here: `Leaving` is what the `async with` awaits, and waits for the children without a frame of its own. So a tower of
 * a thousand blocks is cancelled without a coroutine per storey. As soon as anything else is thrown at it, or the block
 * ends in an error, the Python method takes over: there is one account of the rare ways, and it is that.
 */

#include "core.h"
#include "handle.h"
#include "ops.h"
#include "request.h"

typedef struct NurseryBlock {
    Request request;
    PyObject *name;         /* str, or NULL */
    PyObject *budget;
    PyObject *capabilities; /* tuple, or NULL: those of the owner */
    PyObject *handle;       /* once it was entered */
    Kernel *kernel;
    Nursery *record;
    bool hold;
    bool cancel_on_failure;
} NurseryBlock;

typedef struct Leaving {
    PyObject_HEAD
    NurseryBlock *block;
    PyObject *join;    /* what is yielded while children live */
    PyObject *error;   /* the Cancelled that the block ended in; NULL: it ended well */
    PyObject *passing; /* a Cancelled that is meant for something further out; or NULL */
    PyObject *rest;    /* the coroutine that took over; or NULL */
    bool over;
} Leaving;

/* ---- entering */

static PyObject *
block_perform(Kernel *k, Task *task, Request *request)
{
    NurseryBlock *self = (NurseryBlock *)request;
    Nursery *record = k_open_nursery(k, task, self->name, self->budget, self->capabilities);
    if (record == NULL) {
        return NULL;
    }
    record->hold = self->hold;
    record->cancel_on_failure = self->cancel_on_failure;
    PyObject *handle = nursery_handle_new(k, record);
    if (handle != NULL) {
        Py_XSETREF(self->kernel, (Kernel *)Py_NewRef((PyObject *)k));
        Py_XSETREF(self->handle, Py_NewRef(handle));
        Py_XSETREF(self->record, (Nursery *)Py_NewRef((PyObject *)record));
    }
    Py_DECREF(record);
    return handle;
}

static const RequestVT block_vt = {.cost = LAW_ROW_OP, .perform = block_perform};

static PyObject *
block_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *name, *budget, *capabilities;
    int hold, cancel_on_failure;
    if (!PyArg_ParseTuple(args, "ppUOO:NurseryBlock", &hold, &cancel_on_failure, &name, &budget, &capabilities)) {
        return NULL;
    }
    State *st = state_of(type);
    PyObject *plain[] = {budget}, *checked = NULL;
    if (st == NULL || (budget != st->UNSTATED && (checked = law_call(st, "require_plain", plain, 1)) == NULL)) {
        return NULL;
    }
    Py_XDECREF(checked);
    NurseryBlock *self = (NurseryBlock *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->request.vt = &block_vt;
        self->name = PyUnicode_GET_LENGTH(name) > 0 ? Py_NewRef(name) : NULL;
        self->budget = Py_NewRef(budget);
        self->capabilities = capabilities == Py_None ? NULL : Py_NewRef(capabilities);
        self->hold = hold != 0;
        self->cancel_on_failure = cancel_on_failure != 0;
    }
    return (PyObject *)self;
}

static PyObject *
block_enter(NurseryBlock *self, PyObject *Py_UNUSED(unused))
{
    if (self->record != NULL) {
        PyObject *args[] = {(PyObject *)self};
        return law_call(self->kernel->st, "entered_twice", args, 1); /* raises ScopeMisuse */
    }
    return Py_NewRef((PyObject *)self);
}

/* ---- leaving */

/* Every child has ended: the end of the nursery. 0, or -1 with what its children failed with. */
static int
end_now(NurseryBlock *self)
{
    Nursery *record = self->record;
    if (record->failures == NULL || PyList_GET_SIZE(record->failures) == 0) {
        return k_end_nursery(self->kernel, record);
    }
    PyObject *args[] = {(PyObject *)self->kernel, (PyObject *)record};
    PyObject *none = law_call(self->kernel->st, "end_failed", args, 2); /* raises the group */
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

/* The coroutine of the Python side that leaves the block, whatever happened. */
static PyObject *
leave_in_python(NurseryBlock *self, PyObject *error)
{
    return PyObject_CallMethod((PyObject *)self, "_leave", "O", error);
}

/* What waits for the children of a block that ended well or, if it is not NULL, in the cancellation `error`. */
static Leaving *
leaving_new(NurseryBlock *block, PyObject *error)
{
    State *st = block->kernel->st;
    Leaving *self = PyObject_GC_New(Leaving, st->Leaving);
    if (self == NULL) {
        return NULL;
    }
    self->block = (NurseryBlock *)Py_NewRef((PyObject *)block);
    bool further = error != NULL && cancelled_reason(error) != block->record->scope->reason;
    self->join = self->rest = NULL;
    self->error = Py_XNewRef(error);
    self->passing = further ? Py_NewRef(error) : NULL;
    self->over = false;
    PyObject_GC_Track((PyObject *)self);
    return self;
}

/* Whether it had to ask to start: then it may lend its place to its children. */
static bool
has_permit(const Task *owner)
{
    return owner->more != NULL && owner->more->permit != NULL;
}

static PyObject *
block_exit(NurseryBlock *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 3 || self->record == NULL) {
        PyErr_SetString(PyExc_AssertionError, "left without being entered");
        return NULL;
    }
    Kernel *k = self->kernel;
    Task *owner = self->record->owner;
    PyObject *error = args[1] == Py_None ? NULL : args[1];
    bool usual = error == NULL || (PyObject *)Py_TYPE(error) == k->st->Cancelled;
    if (!usual || k->current != owner || owner->cut || has_permit(owner)) {
        return leave_in_python(self, args[1]);
    }
    if (k_close_nursery(k, self->record) < 0) {
        return NULL;
    }
    return (PyObject *)leaving_new(self, error);
}

/* ---- Leaving: what `async with` awaits */

/* Wait for the children, or end the block: whether its cancellation ends here, or the one that passes. */
static PySendResult
leaving_goes_on(Leaving *self, PyObject **result)
{
    Nursery *record = self->block->record;
    if (!law_queue_empty(&record->children)) {
        if (self->join == NULL && (self->join = join_new(self->block->kernel->st, record)) == NULL) {
            return PYGEN_ERROR;
        }
        return request_send(self->join, Py_None, result);
    }
    self->over = true;
    if (end_now(self->block) < 0) {
        return PYGEN_ERROR;
    }
    if (self->passing != NULL && self->passing != self->error) {
        PyErr_SetObject((PyObject *)Py_TYPE(self->passing), self->passing);
        return PYGEN_ERROR;
    }
    *result = PyBool_FromLong(self->error != NULL && self->passing == NULL);
    return PYGEN_RETURN;
}

static PySendResult
leaving_send(Leaving *self, PyObject *sent, PyObject **result)
{
    if (self->rest != NULL) {
        return PyIter_Send(self->rest, sent, result);
    }
    if (self->over) {
        PyErr_SetString(PyExc_RuntimeError, "the end of a nursery's block cannot be awaited twice");
        return PYGEN_ERROR;
    }
    if (sent != Py_None) {
        Py_DECREF(resumed_with(sent));
    }
    return leaving_goes_on(self, result);
}

/* A send or a throw as a call: the end is a StopIteration. */
static PyObject *
as_iteration(PySendResult status, PyObject *result)
{
    if (status != PYGEN_RETURN) {
        return status == PYGEN_NEXT ? result : NULL;
    }
    raise_stop(result);
    return NULL;
}

static PyObject *
leaving_py_send(Leaving *self, PyObject *sent)
{
    PyObject *result = NULL;
    PySendResult status = leaving_send(self, sent, &result);
    return as_iteration(status, result);
}

static PyObject *
leaving_next(Leaving *self)
{
    return leaving_py_send(self, Py_None);
}

/* Something is thrown at the wait: a cancellation passes when the children have ended; from anything else on, Python
 * leaves the block. */
static PyObject *
leaving_throw(Leaving *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *thrown = thrown_of(args, n);
    if (thrown == NULL) {
        return NULL;
    }
    if (self->rest != NULL) {
        PyObject *next = PyObject_CallMethod(self->rest, "throw", "O", thrown);
        Py_DECREF(thrown);
        return next;
    }
    PyObject *result = NULL;
    if (!self->over && (PyObject *)Py_TYPE(thrown) == self->block->kernel->st->Cancelled) {
        Py_XSETREF(self->passing, thrown);
        PySendResult went = leaving_goes_on(self, &result);
        return as_iteration(went, result);
    }
    self->rest = PyObject_CallMethod((PyObject *)self->block, "_interrupted", "O", thrown);
    Py_DECREF(thrown);
    if (self->rest == NULL) {
        return NULL;
    }
    PySendResult status = PyIter_Send(self->rest, Py_None, &result);
    return as_iteration(status, result);
}

/* The coroutine around it is closed: without children the nursery can still end in order. */
static PyObject *
leaving_close(Leaving *self, PyObject *Py_UNUSED(unused))
{
    if (self->rest != NULL) {
        return PyObject_CallMethod(self->rest, "close", NULL);
    }
    bool first = !self->over;
    self->over = true;
    NurseryBlock *block = self->block;
    if (first && law_queue_empty(&block->record->children) && k_end_nursery(block->kernel, block->record) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static int
leaving_traverse(Leaving *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->block);
    Py_VISIT(self->join);
    Py_VISIT(self->error);
    Py_VISIT(self->passing);
    Py_VISIT(self->rest);
    return 0;
}

static int
leaving_clear(Leaving *self)
{
    Py_CLEAR(self->block);
    Py_CLEAR(self->join);
    Py_CLEAR(self->error);
    Py_CLEAR(self->passing);
    Py_CLEAR(self->rest);
    return 0;
}

static void
leaving_dealloc(Leaving *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    leaving_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef leaving_methods[] = {
    {"send", (PyCFunction)leaving_py_send, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))leaving_throw, METH_FASTCALL, NULL},
    {"close", (PyCFunction)leaving_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot leaving_slots[] = {
    {Py_tp_doc, "The end of a nursery's block, as it is awaited."},
    {Py_tp_traverse, leaving_traverse},
    {Py_tp_clear, leaving_clear},
    {Py_tp_dealloc, leaving_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, leaving_next},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, leaving_send},
    {Py_tp_methods, leaving_methods},
    {0, NULL},
};

PyType_Spec leaving_spec = {
    .name = "bursar._native.Leaving",
    .basicsize = sizeof(Leaving),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = leaving_slots,
};

/* ---- the type */

static int
block_traverse(NurseryBlock *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->capabilities);
    Py_VISIT(self->handle);
    Py_VISIT(self->kernel);
    Py_VISIT(self->record);
    return 0;
}

static int
block_clear(NurseryBlock *self)
{
    Py_CLEAR(self->capabilities);
    Py_CLEAR(self->handle);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->record);
    return 0;
}

static void
block_dealloc(NurseryBlock *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    block_clear(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->budget);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef block_methods[] = {
    {"__aenter__", (PyCFunction)block_enter, METH_NOARGS, NULL},
    {"__aexit__", (PyCFunction)(void (*)(void))block_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef block_members[] = {
    {"_nursery", T_OBJECT, offsetof(NurseryBlock, handle), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, "The `async with` part of a nursery."},
    {Py_am_send, request_send},
    {Py_tp_new, block_make},
    {Py_tp_traverse, block_traverse},
    {Py_tp_clear, block_clear},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_tp_members, block_members},
    {0, NULL},
};

PyType_Spec nursery_block_spec = {
    .name = "bursar._native.NurseryBlock",
    .basicsize = sizeof(NurseryBlock),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = block_slots,
};
