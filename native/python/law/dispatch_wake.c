/* The end of a poll, and what makes a waiting task runnable again. After law/dispatch.py.
 *
 * Only `k_wake`, `k_interrupt` and a timer (timers.c) make a waiting task runnable. All of them end in `k_ready`
 * (dispatch.c), which queues the task. `k_answer` is a wake; dispatch_wake_fast.h has its fast path.
 *
 * DISPATCH-1  a task is QUEUED exactly when READY, and its wake state follows its state
 */

#include "python/law/dispatch_wake.h"
#include "python/cpython/context.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/dispatch_wake_fast.h"
#include "python/law/observer.h"
#include "python/law/task.h"
#include "python/ops/request.h"
#include "python/trace/events.h"

/* ---- the end of a poll */

int
k_poll_over(Kernel *k, Task *task)
{
    if (rule(k->current == task, "DISPATCH-2") < 0 || cleanup_arm_promised(k) < 0) {
        return -1;
    }
    k->current = NULL;
    return 0;
}

void
k_discard_answer(Task *task)
{
    task->raises = task->effect = 0;
    Py_CLEAR(task->answer);
}

int
k_yielded(Kernel *k, Task *task)
{
    if (k_poll_over(k, task) < 0) {
        return -1;
    }
    if (task->answer != NULL || task->effect) {
        k_discard_answer(task);
    }
    law_state_move(&task->state, LAW_STATE_RUNNING, LAW_STATE_READY);
    law_wake_queued(&task->wake);
    task->since_ns = k->now_ns;
    return k_enqueue(k, task, false, 0);
}

/* The common part of `k_blocked` and `k_blocked_bare`. If a wake came while the task ran, it is queued again at
 * once. */
static int
begin_wait(Kernel *k, Task *task)
{
    task->since_ns = k->now_ns;
    if (NOTED(k, note_blocked(k, task)) < 0) {
        return -1;
    }
    if (law_end_poll(&task->wake)) {
        return k_end_wait(k, task, false, 0);
    }
    return task->cancel_pending || task->cut ? k_interrupt(k, task) : 0;
}

int
k_blocked(Kernel *k, Task *task, PyObject *wait)
{
    if (k_poll_over(k, task) < 0 || task_move(task, LAW_STATE_BLOCKED) < 0) {
        return -1;
    }
    task->bare = 0;
    Py_XSETREF(task->pending, Py_NewRef(wait));
    return begin_wait(k, task);
}

int
k_blocked_bare(Kernel *k, Task *task, Request *operation)
{
    if (k_poll_over(k, task) < 0 || task_move(task, LAW_STATE_BLOCKED) < 0) {
        return -1;
    }
    task->bare = 1;
    Py_XSETREF(task->pending, Py_NewRef((PyObject *)operation));
    return begin_wait(k, task);
}

/* ---- becoming runnable */

/* A wait that was answered has left its queues already. The task is queued even if `withdraw` of a wait in Python
 * fails. The wait is released last: its destructor may run user code, which must not see a BLOCKED task without a
 * wait. */
int
k_end_wait(Kernel *k, Task *task, bool timed, int64_t deadline_ns)
{
    PyObject *wait = task->pending;
    int failed = 0;
    if (task->bare) {
        failed = operation_delist(k, wait, (PyObject *)task);
        task->bare = 0;
        task->pending = NULL;
    } else if (wait != NULL) {
        task->pending = NULL;
        if (Py_TYPE(wait) == k->st->Entry) {
            failed = operation_delist(k, ((Entry *)wait)->operation, wait);
        } else {
            PyObject *none = PyObject_CallMethod(wait, "withdraw", "O", (PyObject *)k);
            failed = none == NULL ? -1 : 0;
            Py_XDECREF(none);
        }
    }
    if (failed < 0) {
        k_defer_error(k);
    }
    failed = k_ready(k, task, timed, deadline_ns);
    Py_XDECREF(wait);
    return failed;
}

int
k_wake(Kernel *k, Task *task, uint64_t generation, PyObject *value, PyObject *error, bool effect, LawNotice *notice)
{
    bool waits_now = task->state == LAW_STATE_BLOCKED && task->pending != NULL;
    *notice = law_notify(&task->wake, task->generation, generation, waits_now);
    if (NOTED(k, note_woken(k, task, generation, *notice)) < 0) {
        return -1;
    }
    switch (*notice) {
    case LAW_NOTICE_ENQUEUE:
    case LAW_NOTICE_NOTED:
        task->raises = error != NULL;
        task->effect = effect;
        Py_XSETREF(task->answer, Py_XNewRef(error ? error : value == Py_None ? NULL : value));
        if (*notice == LAW_NOTICE_ENQUEUE) {
            return k_end_wait(k, task, false, 0);
        }
        return 0;
    case LAW_NOTICE_MERGED:
        return k_count(k, "wakes_merged");
    case LAW_NOTICE_STALE:
    default:
        return k_count(k, "stale_wake");
    }
}

int
k_answer(Kernel *k, PyObject *waiter, PyObject *value)
{
    LawNotice notice;
    if (is_task(waiter)) {
        if (LIKELY(is_plain_wait(k, (Task *)waiter))) {
            return answer_fast(k, (Task *)waiter, value);
        }
        return k_wake(k, (Task *)waiter, ((Task *)waiter)->generation, value, NULL, true, &notice);
    }
    if (Py_TYPE(waiter) == k->st->Entry) {
        return k_wake(k, ((Wait *)waiter)->task, ((Wait *)waiter)->generation, value, NULL, true, &notice);
    }
    PyObject *what = value ? value : Py_None;
    /* CONTEXT-3 */
    PyObject *none = context_leave(k) < 0 ? NULL : PyObject_CallMethod(waiter, "answer", "OO", (PyObject *)k, what);
    Py_XDECREF(none);
    return none == NULL ? k_defer_error(k)
                        : 0; /* the waiter has left its list and gets no second answer, so the error must end the run */
}

int
k_refuse(Kernel *k, PyObject *waiter, PyObject *error)
{
    LawNotice notice;
    if (is_task(waiter)) {
        return k_wake(k, (Task *)waiter, ((Task *)waiter)->generation, NULL, error, false, &notice);
    }
    PyObject *none = PyObject_CallMethod(waiter, "refuse", "OO", (PyObject *)k, error);
    Py_XDECREF(none);
    return none == NULL ? k_defer_error(k) : 0;
}

/* Wake a BLOCKED task if its wait is interruptible; otherwise call `interrupted` of the wait. */
static int
interrupt_wait(Kernel *k, Task *task)
{
    LawNotice notice;
    if (task->bare || Py_TYPE(task->pending) == k->st->Entry) {
        return k_wake(k, task, task->generation, NULL, NULL, false, &notice);
    }
    PyObject *wait = Py_NewRef(task->pending), *may = PyObject_GetAttrString(wait, "interruptible");
    int yes = may == NULL ? -1 : PyObject_IsTrue(may), failed = yes;
    Py_XDECREF(may);
    if (yes > 0) {
        failed = k_wake(k, task, task->generation, NULL, NULL, false, &notice);
    } else if (yes == 0) {
        PyObject *none = PyObject_CallMethod(wait, "interrupted", "O", (PyObject *)k);
        failed = none == NULL ? -1 : 0;
        Py_XDECREF(none);
    }
    Py_DECREF(wait);
    return failed < 0 ? -1 : 0;
}

int
k_unpause(Kernel *k, Task *task)
{
    bool woken = law_end_poll(&task->wake);
    return !woken ? 0 : k_end_wait(k, task, false, 0);
}

/* Call the ticket of a task that is asked to stop: `stopped` for the whole task, `scope_cancelled` for a block in it.
 * 1: the request is for a block and the task was paused; the request is delivered after the resume. 0: interrupt the
 * task. -1: error. */
static int
stop_ticket(Kernel *k, Task *task)
{
    bool whole = task->cut || cancel_deliverable(k->st, task) == (PyObject *)task;
    bool paused = task->state == LAW_STATE_PAUSED || (task->state == LAW_STATE_BLOCKED && task->wake != LAW_WAKE_IDLE);
    PyObject *ticket = Py_NewRef(task->extra->ticket); /* RECORD-3 */
    PyObject *none = PyObject_CallMethod(ticket, whole ? "stopped" : "scope_cancelled", "O", (PyObject *)k);
    Py_XDECREF(none);
    Py_DECREF(ticket);
    return none == NULL ? -1 : paused && !whole;
}

int
k_interrupt(Kernel *k, Task *task)
{
    int stays = task->extra != NULL && task->extra->ticket != NULL ? stop_ticket(k, task) : 0;
    if (stays != 0) {
        return stays < 0 ? -1 : 0;
    }
    switch (task->state) {
    case LAW_STATE_BLOCKED:
        if (task->wake ==
            LAW_WAKE_QUEUED) { /* its wait is about to end, and the code that ends it queues the task (RECORD-3) */
            return 0;
        }
        if (task->wake != LAW_WAKE_IDLE) { /* paused: end the pause first */
            return k_unpause(k, task) < 0 ? -1 : k_interrupt(k, task);
        }
        return interrupt_wait(k, task);
    case LAW_STATE_EXHAUSTED:
    case LAW_STATE_PENDING:
    case LAW_STATE_PAUSED:
        if (task->nursery->exhausted != NULL) {
            PyObject *id = PyLong_FromUnsignedLongLong(task->id);
            if (id == NULL || (PyDict_Contains(task->nursery->exhausted, id) > 0 &&
                               PyDict_DelItem(task->nursery->exhausted, id) < 0)) {
                Py_XDECREF(id);
                return -1;
            }
            Py_DECREF(id);
        }
        if (task->raises) {
            k_discard_answer(task);
        }
        return k_ready(k, task, false, 0);
    case LAW_STATE_READY:
        if (task->lane == LAW_LANE_CANCEL) {
            return 0;
        }
        return k_unqueue(k, task) < 0 ? -1 : k_enqueue(k, task, false, 0);
    default:
        return 0;
    }
}
