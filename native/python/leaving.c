/* The end of `async with nursery()`, as it is awaited. After nursery.py.
 *
 * Leaving a block well or because of a cancellation, by the owner itself, is here: `Leaving` is what the `async with`
 * awaits, and waits for the children without a frame of its own. So a tower of a thousand blocks is cancelled without a
 * coroutine per storey. As soon as anything else is thrown at it, the Python method takes over: there is one account of
 * the rare ways, and it is that.
 */

#include "block.h"
#include "ops.h"
#include "request.h"

typedef struct Leaving {
    PyObject_HEAD
    NurseryBlock *block;
    PyObject *join;    /* what is yielded while children live */
    PyObject *error;   /* the Cancelled that the block ended in; NULL: it ended well */
    PyObject *passing; /* a Cancelled that is meant for something further out; or NULL */
    PyObject *rest;    /* the coroutine that took over; or NULL */
    bool over;
} Leaving;

PyObject *
leaving_new(NurseryBlock *block, PyObject *error)
{
    State *st = block->kernel->st;
    Leaving *self = (Leaving *)free_make(&st->free_leavings, st->Leaving);
    if (self == NULL) {
        return NULL;
    }
    self->block = (NurseryBlock *)Py_NewRef((PyObject *)block);
    bool further = error != NULL && cancelled_reason(error) != block->record->scope->reason;
    self->error = Py_XNewRef(error);
    self->passing = further ? Py_NewRef(error) : NULL;
    if (error == NULL) {
        aside_keep(&block->kernel->aside, (PyObject *)self);
    }
    else {
        PyObject_GC_Track((PyObject *)self);
    }
    return (PyObject *)self;
}

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
    aside_show_one((PyObject *)self); /* what was thrown may lead back here */
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
    State *st = state_left(Py_TYPE(self));
    PyObject_GC_UnTrack(self);
    leaving_clear(self);
    free_drop(st ? &st->free_leavings : NULL, (PyObject *)self);
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
