/* The end of a task. After law/kernel.py.
 *
 * A task becomes DONE only when none of its nurseries has live children. Then it releases its leftovers, leaves its
 * cancel scopes, gives back its unspent budget and its count under `CapSpawn`, in this order. After that its gate
 * learns of the end, the task leaves its nursery, and the tasks that wait for it are woken.
 */

#include "python/law/task_end.h"
#include "python/cpython/context.h"
#include "python/law/admission/gate.h"
#include "python/law/admission/ticket.h"
#include "python/law/cancel.h"
#include "python/law/cancel_request.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_wake.h"
#include "python/law/nursery.h"
#include "python/law/pool.h"
#include "python/law/task.h"
#include "python/law/task_end_fast.h"
#include "python/law/waitlist.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

static inline bool
is_set(const PyObject *field)
{
    return field != NULL && field != Py_None;
}

/* Release the leftovers of an ended task: open obligations, and nurseries that it never left. Python reports them. */
static int
release_leftovers(Kernel *k, Task *task)
{
    TaskExtra *extra = task->extra;
    bool owes = extra->obligations != NULL && PyDict_GET_SIZE(extra->obligations) > 0;
    if (!owes && law_queue_empty(&extra->owned)) {
        return 0;
    }
    PyObject *args[] = {(PyObject *)k, (PyObject *)task};
    PyObject *done = py_call(k->st, PY_release_leftovers, args, 2);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* `outcome`, or if that is NULL, a new Outcome of `kind` with `content`. New reference. */
static PyObject *
outcome_of(Kernel *k, LawOutcome kind, PyObject *content, PyObject *outcome)
{
    if (outcome != NULL) {
        return Py_NewRef(outcome);
    }
    bool failed = kind == LAW_OUTCOME_FAILED || kind == LAW_OUTCOME_PANICKED, ok = kind == LAW_OUTCOME_OK;
    PyObject *what = content ? content : Py_None;
    PyObject *fields[] = {k->st->kinds[kind], ok ? what : Py_None, failed ? what : Py_None,
                          ok || failed ? Py_None : what};
    return frozen_new(k->st->Outcome, k->st->outcome_slots, fields, 4);
}

/* The Outcome of a DONE task, made if needed. Borrowed: the task keeps it. */
static PyObject *
outcome_kept(Kernel *k, Task *task)
{
    PyObject *outcome = task_outcome(k->st, task);
    Py_XDECREF(outcome); /* the task holds it */
    return outcome;
}

/* Whether the failure of a task is excused, because another attempt follows. -1: error. */
static int
is_excused(const Task *task)
{
    PyObject *ticket = task->extra ? task->extra->ticket : NULL;
    PyObject *excused = ticket == NULL ? NULL : PyObject_GetAttrString(ticket, "excused");
    int yes = ticket == NULL ? 0 : excused == NULL ? -1 : PyObject_IsTrue(excused);
    Py_XDECREF(excused);
    return yes;
}

/* Note in the nursery that a child is DONE. 1: it failed, and its siblings must be cancelled; -1: error. */
static int
note_end(Kernel *k, Nursery *nursery, Task *task)
{
    if (nursery->exhausted != NULL && PyDict_GET_SIZE(nursery->exhausted) > 0) {
        PyObject *id = PyLong_FromUnsignedLongLong(task->id);
        int held = id == NULL ? -1 : PyDict_Contains(nursery->exhausted, id);
        if (held > 0) {
            held = PyDict_DelItem(nursery->exhausted, id);
        }
        Py_XDECREF(id);
        if (held < 0) {
            return -1;
        }
    }
    if (is_set(nursery->ends)) { /* supervised: the supervisor decides what follows */
        PyObject *none = PyObject_CallMethod(nursery->ends, "append", "O", (PyObject *)task);
        Py_XDECREF(none);
        return none == NULL ? -1 : 0;
    }
    if (task->kind != LAW_OUTCOME_FAILED && task->kind != LAW_OUTCOME_PANICKED) {
        return 0;
    }
    int excused = is_excused(task);
    if (excused != 0) {
        return excused < 0 ? -1 : 0;
    }
    PyObject *outcome = outcome_kept(k, task), *error = outcome ? PyObject_GetAttrString(outcome, "error") : NULL;
    if (error == NULL) {
        return -1;
    }
    PyObject *args[] = {(PyObject *)nursery, error};
    PyObject *none = py_call(k->st, PY_add_failure, args, 2);
    Py_DECREF(error);
    Py_XDECREF(none);
    return none == NULL ? -1 : nursery->cancel_on_failure;
}

static int
cancel_siblings(Kernel *k, Nursery *nursery, Task *task)
{
    PyObject *outcome = outcome_kept(k, task), *id = PyLong_FromUnsignedLongLong(task->id);
    PyObject *detail = outcome && id ? PyUnicode_FromFormat("task %R %S", task->name, outcome) : NULL;
    PyObject *why = detail ? cancel_reason_new(k->st, LAW_CANCEL_SIBLING, detail, id) : NULL;
    int failed = why == NULL ? -1 : cancel_request_nursery(k, nursery, why);
    Py_XDECREF(id);
    Py_XDECREF(detail);
    Py_XDECREF(why);
    return failed;
}

/* Answer the waiter in a field of a nursery, and clear the field. */
static int
answer_once(Kernel *k, PyObject **slot)
{
    PyObject *waiter = *slot;
    *slot = NULL;
    int failed = k_answer(k, waiter, NULL);
    Py_DECREF(waiter);
    return failed;
}

/* The last child has ended: close the nursery if its block has ended, and wake the task that waits for that. */
NOINLINE static int
answer_joining(Kernel *k, Nursery *nursery)
{
    nursery_close_if_over(nursery);
    if (nursery->joining != NULL) {
        return answer_once(k, &nursery->joining);
    }
    Task *owner = nursery->owner;
    if (owner != NULL && owner->state == LAW_STATE_BLOCKED && !owner->bare && owner->pending != NULL &&
        (PyObject *)Py_TYPE(owner->pending) == k->st->Drain && !task_has_children(owner)) {
        PyObject *wait = Py_NewRef(owner->pending);
        int failed = k_answer(k, wait, NULL);
        Py_DECREF(wait);
        return failed;
    }
    return 0;
}

/* Remove the task from its nursery; cancel its siblings if it failed; wake the owner after the last child. */
static int
notify_parent(Kernel *k, Task *task)
{
    Nursery *nursery = task->nursery;
    law_queue_remove(&nursery->children, &task->sibling); /* `k_finish` takes over its reference */
    int cancels = note_end(k, nursery, task);
    if (cancels < 0 || (cancels > 0 && cancel_siblings(k, nursery, task) < 0)) {
        k_defer_error(k);
    }
    if (is_set(nursery->ends_waiter) && answer_once(k, &nursery->ends_waiter) < 0) {
        return -1;
    }
    return law_queue_empty(&nursery->children) ? answer_joining(k, nursery) : 0;
}

/* Answer the tasks that wait for the end of the task with its outcome, oldest first. */
static int
answer_waiters(Kernel *k, Task *task)
{
    PyObject *waiters = task->extra ? task->extra->waiters : NULL;
    if (waiters == NULL) {
        return 0;
    }
    PyObject *waiter, *outcome = task_outcome(k->st, task);
    int failed = outcome == NULL ? -1 : 0;
    if (failed < 0) {
        return -1;
    }
    task->extra->waiters = NULL;
    while (failed == 0 && (waiter = waitlist_take((WaitList *)waiters)) != NULL) {
        failed = k_answer(k, waiter, outcome);
        Py_DECREF(waiter);
    }
    Py_DECREF(outcome);
    Py_DECREF(waiters);
    return failed;
}

/* The `CapSpawn` that counted the task counts one task less. */
static int
release_spawn_cap(Kernel *k, Task *task)
{
    PyObject *cap = task->terms->spawn_cap;
    if (cap == NULL) {
        return 0;
    }
    if (cap == k->caches.checked_spawn_cap) {
        k->postponed.uses -= 1;
        return 0;
    }
    PyObject *none =
        context_leave(k) < 0 ? NULL : PyObject_CallMethod(k->registry, "release", "O", cap); /* CONTEXT-3 */
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

/* Cancel the live children of a task whose code has ended, and wait for them. The task keeps its outcome until then. */
static int
drain_owned(Kernel *k, Task *task, LawOutcome kind, PyObject *content, PyObject *outcome)
{
    PyObject *whole = outcome_of(k, kind, content, outcome);
    PyObject *args[] = {(PyObject *)k, (PyObject *)task, whole};
    PyObject *done = whole == NULL ? NULL : py_call(k->st, PY_drain_owned, args, 3);
    Py_XDECREF(whole);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether the TaskExtra of a DONE task refers to nothing that could lead back to the task. */
static bool
has_no_way_back(const TaskExtra *extra)
{
    return extra->reason == NULL && extra->inner == NULL && law_queue_empty(&extra->owned) &&
           extra->obligations == NULL && extra->waiters == NULL && extra->cleanup_timer == NULL &&
           extra->credit_of == NULL && extra->ending == NULL && extra->memory == NULL && extra->named_spent == NULL &&
           (extra->ticket == NULL || ticket_is_done(extra->ticket));
}

/* Whether the collector may track an object: `PyObject_IS_GC`, with a cheap check first for numbers, text and None. */
static inline bool
may_be_tracked(PyObject *thing)
{
    return PyType_IS_GC(Py_TYPE(thing)) && PyObject_IS_GC(thing);
}

/* The program still holds the DONE task, and its nursery no longer visits what it refers to (RECORD-4). If its result
 * is plain (a number, text), the task drops its nursery, which no code needs from a DONE task. Then it can be part of
 * no cycle and stays untracked. Any other DONE task is tracked, and so are the records aside that may hold it
 * (ASIDE-2). */
static ALWAYS_INLINE void
track_unless_plain(Kernel *k, Task *task)
{
    bool light = task->extra == NULL ? task->phase == LAW_PHASE_IDLE
                                     : has_no_way_back(task->extra); /* CANCEL-5: it has a reason */
    bool plain = light && !task->whole && (task->work == NULL || !may_be_tracked(task->work));
    if (plain && k->observer == NULL && task->terms->pools == task->nursery->pools) {
        Py_CLEAR(task->nursery);
        return;
    }
    PyObject_GC_Track((PyObject *)task);
    gc_aside_show(&k->gc_aside, (PyObject *)k);
}

/* Release what the DONE task ran with (`work` included), and the nursery's reference to the task, which the caller
 * holds. */
static inline void
release_task(Kernel *k, Task *task, PyObject *work)
{
    Py_CLEAR(task->pending);
    Py_CLEAR(task->context);
    if (work != NULL && Py_REFCNT(work) > 1 && PyCoro_CheckExact(work)) {
        gc_aside_show_one(work); /* the task no longer visits the coroutine, which may not have ended */
    }
    Py_XDECREF(work);
    if (Py_REFCNT(task) > 1) {
        track_unless_plain(k, task);
    }
    Py_DECREF(task);
}

int
k_returned(Kernel *k, Task *task, PyObject *value)
{
    if (!LIKELY(is_plain_end(k, task))) {
        int failed = k_finish(k, task, LAW_OUTCOME_OK, value, NULL);
        Py_DECREF(value);
        return failed < 0 ? -1 : 0;
    }
    Nursery *nursery = task->nursery;
    PyObject *work = k_end_fast(k, task, value);
    if (law_queue_empty(&nursery->children) && answer_joining(k, nursery) < 0) {
        k_defer_error(k);
    }
    Py_CLEAR(task->answer);
    release_task(k, task, work);
    return 0;
}

int
k_finish(Kernel *k, Task *task, LawOutcome kind, PyObject *content, PyObject *outcome)
{
    if (task->extra != NULL && task_has_children(task)) {
        return drain_owned(k, task, kind, content, outcome);
    }
    bool polled = task->state != LAW_STATE_PENDING;
    if (polled && rule(k->current == task, "DISPATCH-2") < 0) {
        return -1;
    }
    if (!law_may_end(task->state, kind)) {
        PyObject *args[] = {(PyObject *)task, k->st->kinds[kind]};
        PyObject *none = py_call(k->st, PY_refuse_end, args, 2); /* raises IllegalTransition */
        Py_XDECREF(none);
        return -1;
    }
    if (k->postponed.promised == task) {
        Py_CLEAR(k->postponed.promised); /* the timer would be armed and disarmed unseen (CLEANUP-1 in cleanup.c) */
    }
    if (polled && k_poll_over(k, task) < 0) {
        return -1;
    }
    if (task->extra == NULL) {
        if (task->phase != LAW_PHASE_IDLE) {
            law_phase_advance(&task->phase, LAW_PHASE_FINALIZED);
        }
        task->cancel_pending = 0;
    } else if (release_leftovers(k, task) < 0 || cancel_leave_all(k, task) < 0) {
        return -1;
    }
    Nursery *nursery = task->nursery;
    if (task->terms->pools != nursery->pools && pools_close(k->st, task->terms->pools, nursery->pools) < 0) {
        return -1;
    }
    if (release_spawn_cap(k, task) < 0) {
        return -1;
    }
    if (task_move(task, LAW_STATE_DONE) < 0) {
        return -1;
    }
    PyObject *work = task->work; /* released last: freeing it may run code (RECORD-3) */
    law_wake_done(&task->wake);
    task->kind = (uint16_t)kind & 7u;
    task->whole = outcome != NULL;
    task->work = Py_XNewRef(outcome != NULL ? outcome : content);
    k->live -= 1;
    k->done[kind] += 1;
    NOTED(k, note_done(k, task));
    if (task->extra != NULL && task->extra->ticket != NULL && gate_ended(k, task) < 0) {
        k_defer_error(k);
    }
    if (notify_parent(k, task) < 0) {
        k_defer_error(k); /* the task is DONE: its waiters must be answered */
    }
    if (answer_waiters(k, task) < 0) {
        k_defer_error(k);
    }
    k_discard_answer(task);
    if (task->extra != NULL) {
        Py_CLEAR(task->extra->ending);
    }
    release_task(k, task, work);
    return 1;
}
