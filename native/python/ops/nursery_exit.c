/* The exit of `async with nursery()`: the wait for the children, and the end of the nursery. After ops/nursery.py.
 *
 * This is the exit after a body that ended well or was cancelled. `async with` awaits the block itself, which waits for
 * the children without a frame. So a thousand nested blocks are cancelled without a thousand coroutines. If any error
 * but `Cancelled` is thrown at the wait, the Python method `_interrupted` takes over: the rare cases are written only
 * there.
 */

#include "python/ops/nursery_exit.h"
#include "python/law/cancel.h"
#include "python/law/nursery.h"
#include "python/law/nursery_ops.h"
#include "python/module/seam.h"
#include "python/ops/nursery_block.h"
#include "python/ops/request.h"

/* ---- the wait, as a Join for the nursery of the block */

static int
leaving_ready(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *self)
{
    return nursery_quiet(((NurseryBlock *)self)->record);
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
    .take = request_take_nothing,
    .enlist = leaving_enlist,
    .delist = leaving_delist,
};

/* ---- the exit */

void
leaving_begin(NurseryBlock *self, PyObject *error)
{
    self->request.vt = &leaving_vt;
    if (error != NULL) {
        bool further = cancelled_reason(error) != self->record->scope->reason;
        gc_aside_show_one((PyObject *)self); /* an error may refer to the block */
        self->error = Py_NewRef(error);
        self->passing = further ? Py_NewRef(error) : NULL;
    }
}

/* Every child has ended: end the nursery. 0, or -1 with an exception set: the group of failures and drops. */
static int
end_nursery(NurseryBlock *self)
{
    Nursery *record = self->record;
    if ((record->failures == NULL || PyList_GET_SIZE(record->failures) == 0) && record->drops == NULL) {
        return k_end_nursery(self->kernel, record);
    }
    PyObject *args[] = {(PyObject *)self->kernel, (PyObject *)record};
    PyObject *none = py_call(self->kernel->st, PY_end_failed, args, 2); /* raises the group */
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

/* The exit is over, or goes on in Python: drop the errors. An error refers to the frames that it passed through, and
 * such a frame may hold the block. */
static void
forget_errors(NurseryBlock *self)
{
    Py_CLEAR(self->error);
    Py_CLEAR(self->passing);
}

/* Wait for the children, or end the block. *result: whether the block swallows the Cancelled of its body. A
 * Cancelled for an outer scope is raised again. */
static PySendResult
wait_or_end(NurseryBlock *self, PyObject **result)
{
    if (!nursery_quiet(self->record)) {
        return request_send((PyObject *)self, Py_None, result);
    }
    self->over = true;
    int failed = end_nursery(self);
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
    return wait_or_end(self, result);
}

/* An error is thrown at the wait. A Cancelled is raised again when the children have ended; for any other error, Python
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
    gc_aside_show_one((PyObject *)self); /* the error may refer to the block */
    if (!self->over && (PyObject *)Py_TYPE(thrown) == self->kernel->st->Cancelled) {
        Py_XSETREF(self->passing, thrown);
        PySendResult went = wait_or_end(self, &result);
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

/* The coroutine around the block is closed. A nursery without children can still end. */
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
