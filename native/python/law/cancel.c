/* Cancellation of the scopes of one task: delivering a request, and leaving scopes. After src/bursar/law/cancel.py,
 * function for function; that file explains scopes and the rules CANCEL-1 to CANCEL-4. cancel_request.c has the
 * requests, cleanup.c the cleanup allowance. `cut` and `outward` are rare and stay in Python.
 *
 * Two differences from the Python code:
 *   1. What can run out of memory comes before what changes a record. So a delivery makes its error first. An observer
 *      cannot notice that.
 *   2. A child that was asked to stop together with its siblings, and has no cancel scopes, needs no record of that
 *      (CANCEL-5). Most tasks of a cancelled nursery end without such a record.
 *
 * CANCEL-5  a task without a TaskExtra whose phase is not IDLE was asked to stop by its nursery: its reason is
 *     `nursery->why`, the task is the only scope that counts in `requested` or `draining`, and while it drains it has
 *     used nothing of its cleanup allowance
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

/* The innermost scope of a task; borrowed. */
static PyObject *
innermost(const Task *task)
{
    CancelScope *inner = task_inner(task);
    return inner != NULL ? (PyObject *)inner : (PyObject *)task;
}

/* The scope as a CancelScope; NULL if it is the task itself. */
static CancelScope *
as_cancel_scope(PyObject *scope)
{
    return is_task(scope) ? NULL : (CancelScope *)scope;
}

/* A broken rule raises AssertionError here and does not end the process, because Python code can write the phase. */
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
        law_phase_advance(phase, to); /* the counts follow from the phase (CANCEL-5) */
        return 0;
    }
    TaskExtra *extra = task_extra(task);
    if (extra == NULL) {
        return -1;
    }
    law_phase_move(phase, to, &extra->requested, &extra->draining);
    return 0;
}

PyObject *
cancel_deliverable(ModuleState *Py_UNUSED(st), Task *task)
{
    PyObject *found = NULL;
    for (PyObject *scope = innermost(task); scope != NULL; scope = scope_parent(scope)) {
        const CancelScope *block = as_cancel_scope(scope);
        if (law_deliverable((LawCancelPhase)scope_phase(scope), block != NULL && block->exiting)) {
            found = scope;
        }
        if (block != NULL && block->shielded) {
            break;
        }
    }
    return found;
}

void
cancel_look(ModuleState *st, Task *task)
{
    task->cancel_pending = task_requested(task) > 0 && cancel_deliverable(st, task) != NULL;
}

/* ---- leaving */

/* Raise ScopeMisuse: a cancel scope was left out of order. Always -1. */
static int
raise_scope_misuse(ModuleState *st, Task *task)
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

int
cancel_require_innermost(Kernel *k, CancelScope *scope)
{
    Task *task = scope->task;
    bool may = task_inner(task) == scope && (k->current == NULL || k->current == task);
    return may ? 0 : raise_scope_misuse(k->st, task);
}

/* `cancel_leave`, while the caller holds the scope, which holds the task. */
static int
leave(Kernel *k, CancelScope *scope)
{
    ModuleState *st = k->st;
    Task *task = scope->task;
    if (cancel_require_innermost(k, scope) < 0) {
        return -1;
    }
    /* The end of a nursery has its own event. */
    if (scope->body_of == NULL && NOTED(k, note_task(k, NOTE_SCOPE_LEFT, task)) < 0) {
        return -1;
    }
    CancelScope *outer = as_cancel_scope(scope->parent), *inner = task->extra->inner;
    task->extra->inner = (CancelScope *)Py_XNewRef((PyObject *)outer);
    Py_XDECREF(inner);
    if (scope->timer != NULL) {
        Timer *timer = (Timer *)Py_NewRef((PyObject *)scope->timer);
        int failed = timers_disarm(k->timers, timer);
        Py_DECREF(timer);
        if (failed < 0) {
            return -1;
        }
    }
    bool was_draining = scope->phase == LAW_PHASE_DRAINING;
    if (cancel_move(st, (PyObject *)scope, LAW_PHASE_FINALIZED) < 0) {
        return -1;
    }
    cancel_look(st, task);
    return was_draining && task->extra->draining == 0 ? cancel_end_cleanup(k, task) : 0;
}

int
cancel_leave(Kernel *k, CancelScope *scope)
{
    Py_INCREF(scope);
    int result = leave(k, scope);
    Py_DECREF(scope);
    return result;
}

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

/* `Cancelled(reason)`. Tasks that are cancelled together get the same reason. So the kernel caches the args tuple, and
 * the error itself if it came back (`cancel_reuse`). */
static PyObject *
cancelled_new(Kernel *k, PyObject *reason)
{
    PyTypeObject *type = (PyTypeObject *)k->st->Cancelled;
    PyObject *spare = take_spare(k, reason);
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
    return type->tp_new(type, k->caches.cancel_args, NULL); /* sets `args`; __init__ would only set it again */
}

void
cancel_reuse(Kernel *k, PyObject *error)
{
    if (is_reusable(k, error)) {
        Py_CLEAR(((PyBaseExceptionObject *)error)->traceback); /* frees a frame, which may run code (RECORD-3) */
        if (k->caches.cancel_spare == NULL && is_reusable(k, error)) {
            k->caches.cancel_spare = error;
            return;
        }
    }
    Py_DECREF(error);
}

/* The `Cancelled` for the outermost scope whose request can be delivered, and that scope: new references, or both
 * NULL if there is nothing to deliver. Making the error may run Python code, which may request more: then it is made
 * again. */
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

/* The changes that follow when the request of `scope` is delivered (CANCEL-1). */
static int
begin_draining(Kernel *k, Task *task, PyObject *scope)
{
    ModuleState *st = k->st;
    if (is_plain_delivery(k, task)) {
        return begin_draining_fast(k, task);
    }
    if (task_extra(task) == NULL) {
        return -1;
    }
    /* This request unwinds the inner scopes too, so they deliver nothing of their own. */
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

int
cancel_deliver(Kernel *k, Task *task, PyObject **error)
{
    if (is_plain_delivery(k, task) && (*error = take_spare(k, task_reason(task))) != NULL) {
        return begin_draining_fast(k, task); /* a sibling was cancelled before, and its error can be used again */
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
