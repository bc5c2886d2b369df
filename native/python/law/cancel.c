/* Cancellation: the scopes of one task, from the request to the end. After src/bursar/law/cancel.py, function for
 * function; its rules CANCEL-1 to CANCEL-4 and what a scope is are explained there. How a request travels through a
 * family is in cancel_request.c, the allowance for cleanup in cleanup.c; `cut` and `outward` are rare and stay in Python.
 *
 * What differs, and why:
 *   1. What can fail for want of memory comes before what changes a record. So the error that a delivery throws is made
 *      first; making it is nothing that an observer could notice.
 *   2. A child that is asked to stop together with its siblings, and has opened no block, needs no record of that
 *      (CANCEL-5): most of a crowd that is cancelled dies without one.
 *
 * CANCEL-5  a task without a TaskExtra whose phase is not IDLE was asked by its nursery: its reason is `nursery->why`, it is
 *     itself the one scope that counts in `requested` or `draining`, and while it drains its allowance is untouched
 */

#include "python/law/cancel.h"
#include "python/law/cancel_fast.h"
#include "python/law/cleanup.h"
#include "python/law/scope.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* ---- scopes */

/* Where a walk outward begins; borrowed. */
static PyObject *
innermost(const Task *task)
{
    CancelScope *inner = task_inner(task);
    return inner != NULL ? (PyObject *)inner : (PyObject *)task;
}

/* The scope as a block; NULL if it is the task itself. */
static CancelScope *
as_cancel_scope(PyObject *scope)
{
    return is_task(scope) ? NULL : (CancelScope *)scope;
}

/* Change the phase of a scope, forward only. -1 with MemoryError, or with AssertionError set: what Python code wrote
 * into a record may be wrong, and is no reason to end the process. */
int
cancel_move(ModuleState *Py_UNUSED(st), PyObject *scope, LawCancelPhase to)
{
    Task *task = scope_task(scope);
    uint8_t *phase = is_task(scope) ? &task->phase : &((CancelScope *)scope)->phase;
    if (*phase >= to) {
        if (*phase > to) {
            PyErr_SetString(PyExc_AssertionError, "CANCEL-1");
            return -1;
        }
        return 0;
    }
    if (task->extra == NULL && is_task(scope) && *phase != LAW_PHASE_IDLE) {
        law_phase_advance(phase, to); /* and the counts say the same (CANCEL-5) */
        return 0;
    }
    TaskExtra *extra = task_extra(task);
    if (extra == NULL) {
        return -1;
    }
    law_phase_move(phase, to, &extra->requested, &extra->draining);
    return 0;
}

/* The outermost requested scope that the task can see from where it stands (CANCEL-2). */
PyObject *
cancel_deliverable(ModuleState *Py_UNUSED(st), Task *task)
{
    PyObject *found = NULL;
    for (PyObject *scope = innermost(task); scope != NULL; scope = scope_parent(scope)) {
        const CancelScope *block = as_cancel_scope(scope);
        if (law_asks((LawCancelPhase)scope_phase(scope), block != NULL && block->exiting)) {
            found = scope;
        }
        if (block != NULL && block->shielded) {
            break;
        }
    }
    return found;
}

/* Note whether a request is visible from where the task stands now. */
void
cancel_look(ModuleState *st, Task *task)
{
    task->cancel_pending = task_requested(task) > 0 && cancel_deliverable(st, task) != NULL;
}

/* ---- leaving */

/* Says that a block was left out of order. Always -1. */
static int
misused(ModuleState *st, Task *task)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)task, "name");
    if (name == NULL) {
        return -1;
    }
    PyObject *text =
        PyUnicode_FromFormat("task %R: a timeout, shield or nursery was left before one that was opened inside it; "
                             "blocks must end in the reverse order of their beginning, in the task that began them",
                             name);
    Py_DECREF(name);
    PyObject *error = text != NULL ? py_call(st, PY_ScopeMisuse, &text, 1) : NULL;
    Py_XDECREF(text);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return -1;
}

/* -1 with ScopeMisuse set unless the block may be left now, by whoever runs now. */
int
cancel_require_innermost(Kernel *k, CancelScope *block)
{
    Task *task = block->task;
    bool may = task_inner(task) == block && (k->current == NULL || k->current == task);
    return may ? 0 : misused(k->st, task);
}

/* What `cancel_leave` does, while it holds the block and with it the task. */
static int
leave(Kernel *k, CancelScope *block)
{
    ModuleState *st = k->st;
    Task *task = block->task;
    if (cancel_require_innermost(k, block) < 0) {
        return -1;
    }
    /* The end of a nursery is told by itself. */
    if (block->body_of == NULL && NOTED(k, note_task(k, NOTE_SCOPE_LEFT, task)) < 0) {
        return -1;
    }
    CancelScope *outer = as_cancel_scope(block->parent), *inner = task->extra->inner;
    task->extra->inner = (CancelScope *)Py_XNewRef((PyObject *)outer);
    Py_XDECREF(inner);
    if (block->timer != NULL) {
        Timer *timer = (Timer *)Py_NewRef((PyObject *)block->timer);
        int failed = timers_disarm(k->timers, timer);
        Py_DECREF(timer);
        if (failed < 0) {
            return -1;
        }
    }
    bool was_draining = block->phase == LAW_PHASE_DRAINING;
    if (cancel_move(st, (PyObject *)block, LAW_PHASE_FINALIZED) < 0) {
        return -1;
    }
    cancel_look(st, task);
    return was_draining && task->extra->draining == 0 ? cancel_end_cleanup(k, task) : 0;
}

/* Close the innermost block. What it hid (a shield) becomes visible at the next await. */
int
cancel_leave(Kernel *k, CancelScope *block)
{
    Py_INCREF(block);
    int result = leave(k, block);
    Py_DECREF(block);
    return result;
}

/* The task is over: close whatever blocks it did not leave. */
int
cancel_leave_all(Kernel *k, Task *task)
{
    while (task_inner(task) != NULL) {
        if (cancel_leave(k, task_inner(task)) < 0) {
            return -1;
        }
    }
    if (task->phase != LAW_PHASE_IDLE && cancel_move(k->st, (PyObject *)task, LAW_PHASE_FINALIZED) < 0) {
        return -1;
    }
    task->cancel_pending = 0;
    return cancel_end_cleanup(k, task);
}

/* ---- delivering */

/* A Cancelled with its reason: what calling the class comes to. All who are asked to stop at once hear the same reason,
 * so the tuple that it is in is kept for the next one, and so is the error itself, if it comes back. */
static PyObject *
cancelled_new(Kernel *k, PyObject *reason)
{
    PyTypeObject *type = (PyTypeObject *)k->st->Cancelled;
    PyObject *spare = spare_for(k, reason);
    if (spare != NULL || !is_plain_class(type)) {
        return spare != NULL ? spare : PyObject_CallOneArg((PyObject *)type, reason);
    }
    if (k->caches.cancel_args == NULL || PyTuple_GET_ITEM(k->caches.cancel_args, 0) != reason) {
        PyObject *args = PyTuple_Pack(1, reason);
        if (args == NULL) {
            return NULL;
        }
        Py_XSETREF(k->caches.cancel_args, args);
        Py_CLEAR(k->caches.cancel_spare);
    }
    return type->tp_new(type, k->caches.cancel_args, NULL); /* and its __init__ would only put the tuple there again */
}

void
cancel_spent(Kernel *k, PyObject *error)
{
    if (is_as_new(k, error)) {
        Py_CLEAR(
            ((PyBaseExceptionObject *)error)->traceback); /* which lets go of a frame, and may run code (RECORD-3) */
        if (k->caches.cancel_spare == NULL && is_as_new(k, error)) {
            k->caches.cancel_spare = error;
            return;
        }
    }
    Py_DECREF(error);
}

/* The error that delivers the outermost request that the task can see, and that scope; new references. *error is NULL
 * if there is nothing to deliver. Making the error runs Python code, which may ask for more: then it is made again. */
static int
make_error(Kernel *k, Task *task, PyObject **error, PyObject **scope)
{
    ModuleState *st = k->st;
    *error = *scope = NULL;
    PyObject *found;
    while ((found = cancel_deliverable(st, task)) != *scope) {
        Py_CLEAR(*error);
        Py_XSETREF(*scope, Py_XNewRef(found));
        PyObject *reason = found != NULL ? Py_XNewRef(scope_reason(found)) : NULL;
        if (found != NULL && reason == NULL) {
            PyErr_SetString(PyExc_AssertionError, "a request has a reason");
        }
        if (reason != NULL) {
            *error = cancelled_new(k, reason);
            Py_DECREF(reason);
        }
        if (found != NULL && *error == NULL) {
            Py_CLEAR(*scope);
            return -1;
        }
    }
    return 0;
}

/* What follows when the request of `scope` is thrown into the task (CANCEL-1). */
static int
begin_draining(Kernel *k, Task *task, PyObject *scope)
{
    ModuleState *st = k->st;
    if (is_bare(k, task)) {
        return drain_bare(k, task);
    }
    if (task_extra(task) == NULL) {
        return -1;
    }
    /* The blocks inside are unwound by this very request: their own would be moot. */
    for (PyObject *inner = innermost(task); inner != NULL; inner = scope_parent(inner)) {
        if (cancel_move(st, inner, LAW_PHASE_DRAINING) < 0) {
            return -1;
        }
        if (inner == scope) {
            break;
        }
    }
    cancel_look(st, task);
    if (NOTED(k, note_cancel(k, NOTE_CANCEL_DELIVERED, task, scope_reason(scope))) < 0) {
        return -1;
    }
    return cancel_begin_cleanup(k, task);
}

/* What to throw into the task now, if anything. Starts its cleanup. */
int
cancel_deliver(Kernel *k, Task *task, PyObject **error)
{
    if (is_bare(k, task) && (*error = spare_for(k, task_reason(task))) != NULL) {
        return drain_bare(k, task); /* one of a crowd, and not the first */
    }
    PyObject *scope;
    if (make_error(k, task, error, &scope) < 0) {
        return -1;
    }
    if (scope == NULL) {
        task->cancel_pending = 0;
        return 0;
    }
    int result = begin_draining(k, task, scope);
    Py_DECREF(scope);
    if (result < 0) {
        Py_CLEAR(*error);
    }
    return result;
}
