/* The end of `async with nursery()`, as it is awaited. After nursery.py.
 *
 * Leaving a block well or because of a cancellation, by the owner itself, is here: the block itself is what the `async
 * with` awaits, and waits for the children without a frame of its own. So a tower of a thousand blocks is cancelled
 * without a coroutine per storey. As soon as anything else is thrown at it, the Python method takes over: there is one
 * account of the rare ways, and it is that.
 */

#include "python/ops/nursery_exit.h"
#include "python/law/cancel.h"
#include "python/law/nursery.h"
#include "python/law/nursery_ops.h"
#include "python/module/seam.h"
#include "python/ops/nursery_block.h"
#include "python/ops/request.h"

/* ---- waiting: what `_Join` is, about the nursery of the block */

static int
leaving_ready(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *self)
{
    return nursery_quiet(((NurseryBlock *)self)->record);
}

static PyObject *
leaving_take(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *Py_UNUSED(self))
{
    Py_RETURN_NONE;
}

static int
leaving_enlist(Kernel *Py_UNUSED(k), Request *self, PyObject *waiter)
{
    nursery_join(((NurseryBlock *)self)->record, waiter);
    return 0;
}

static int
leaving_delist(Kernel *Py_UNUSED(k), Request *self, PyObject *waiter)
{
    nursery_unjoin(((NurseryBlock *)self)->record, waiter);
    return 0;
}

const RequestVT leaving_vt = {
    .cost = {.n = 0},
    .quiet = true,
    .ready = leaving_ready,
    .take = leaving_take,
    .enlist = leaving_enlist,
    .delist = leaving_delist,
};

/* ---- the way out */

void
leaving_begin(NurseryBlock *self, PyObject *error)
{
    self->request.vt = &leaving_vt;
    if (error != NULL) {
        bool further = cancelled_reason(error) != self->record->scope->reason;
        gc_aside_show_one((PyObject *)self); /* an error may lead back here */
        self->error = Py_NewRef(error);
        self->passing = further ? Py_NewRef(error) : NULL;
    }
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
    PyObject *none = py_call(self->kernel->st, PY_end_failed, args, 2); /* raises the group */
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

/* The way out is over, or goes on in Python. An error must not outlive that here: it leads back to the frame that it passed
 * through, which may hold the block. */
static void
forget_errors(NurseryBlock *self)
{
    Py_CLEAR(self->error);
    Py_CLEAR(self->passing);
}

/* Wait for the children, or end the block: whether its cancellation ends here, or the one that passes. */
static PySendResult
goes_on(NurseryBlock *self, PyObject **result)
{
    if (!nursery_quiet(self->record)) {
        return request_send((PyObject *)self, Py_None, result);
    }
    self->over = true;
    int failed = end_now(self);
    if (failed == 0 && self->passing != NULL && self->passing != self->error) {
        PyErr_SetObject((PyObject *)Py_TYPE(self->passing), self->passing);
        failed = -1;
    }
    *result = failed < 0 ? NULL : PyBool_FromLong(self->error != NULL && self->passing == NULL);
    forget_errors(self);
    return failed < 0 ? PYGEN_ERROR : PYGEN_RETURN;
}

PySendResult
leaving_send(NurseryBlock *self, PyObject *sent, PyObject **result)
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
    return goes_on(self, result);
}

/* Something is thrown at the wait: a cancellation passes when the children have ended; from anything else on, Python
 * leaves the block. */
PyObject *
leaving_throw(NurseryBlock *self, PyObject *thrown)
{
    if (self->rest != NULL) {
        PyObject *next = PyObject_CallMethod(self->rest, "throw", "O", thrown);
        Py_DECREF(thrown);
        return next;
    }
    PyObject *result = NULL;
    gc_aside_show_one((PyObject *)self); /* what was thrown may lead back here */
    if (!self->over && (PyObject *)Py_TYPE(thrown) == self->kernel->st->Cancelled) {
        Py_XSETREF(self->passing, thrown);
        PySendResult went = goes_on(self, &result);
        return as_iteration(went, result);
    }
    forget_errors(self);
    self->rest = PyObject_CallMethod((PyObject *)self, "_interrupted", "O", thrown);
    Py_DECREF(thrown);
    if (self->rest == NULL) {
        return NULL;
    }
    PySendResult status = PyIter_Send(self->rest, Py_None, &result);
    return as_iteration(status, result);
}

/* The coroutine around it is closed: without children the nursery can still end in order. */
PyObject *
leaving_close(NurseryBlock *self)
{
    if (self->rest != NULL) {
        return PyObject_CallMethod(self->rest, "close", NULL);
    }
    bool first = !self->over;
    self->over = true;
    forget_errors(self);
    if (first && nursery_quiet(self->record) && k_end_nursery(self->kernel, self->record) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
