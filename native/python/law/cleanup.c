/* The cleanup allowance of a task that was told to stop: operations, and time. After law/cleanup.py.
 *
 * Nearly every task that is told to stop ends in that very poll. Its timer would be armed and disarmed within one call,
 * and nobody could see it in between. So where nobody listens the timer of the task that runs is only *promised*: its
 * number and its deadline are taken, as the law would, and the timer is armed by whoever could tell the difference.
 *
 *   CLEANUP-1  at most one timer is promised, to the task that runs; when its poll is over it is armed, or the task has
 *       ended
 *   CLEANUP-2  whoever looks at a timer, or at the heap, through Python or by `advance`, arms it first
 *   CLEANUP-3  it is armed before a request is performed: that may enter the task in a queue, and then it is too late
 *       to fail
 *
 * Rejected: to arm it no earlier than the task waits again. The time runs from the delivery, whatever the task does.
 */

#include "python/law/cleanup.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/trace/events.h"

/* ---- the promise */

int
cleanup_promise(Kernel *k, Task *task)
{
    if (cleanup_kept(k) < 0) { /* CLEANUP-1 */
        return -1;
    }
    k->postponed.promised = (Task *)Py_NewRef((PyObject *)task);
    k->postponed.promised_ns = k_deadline(k, k->cleanup_ns);
    k->postponed.promised_id = k->timers->next_id++;
    return 0;
}

int
cleanup_keep(Kernel *k)
{
    TaskExtra *extra = task_extra(k->postponed.promised);
    if (extra == NULL) {
        return -1;
    }
    Timer *timer = timers_arm_as(k->st, k->timers, k->postponed.promised_id, k->postponed.promised_ns,
                                 LAW_TIMER_CLEANUP, k->postponed.promised);
    if (timer == NULL) {
        return -1;
    }
    Py_XSETREF(extra->cleanup_timer, timer);
    Py_CLEAR(k->postponed.promised);
    return 0;
}

/* ---- the allowance */

/* From here on the task lives on its cleanup allowance. */
int
cancel_begin_cleanup(Kernel *k, Task *task)
{
    TaskExtra *extra = task_extra(task);
    if (extra == NULL) {
        return -1;
    }
    if (extra->cleanup_left >= 0) {
        return 0;
    }
    extra->cleanup_left = k->cleanup_ops;
    extra->cleanup_left_ns = k->cleanup_ns;
    if (cancel_resume_cleanup(k, task) < 0) {
        return -1;
    }
    PyObject *obligations = task->extra->obligations;
    if (obligations != NULL && PyDict_GET_SIZE(obligations) > 0 &&
        PyObject_SetItem(k->draining_holders, (PyObject *)task, Py_None) < 0) {
        return -1;
    }
    return NOTED(k, note_task(k, NOTE_CLEANUP_BEGUN, task));
}

/* Waiting for cancelled children is not cleaning up: they have allowances of their own, or shields. */
int
cancel_pause_cleanup(Kernel *k, Task *task)
{
    if (cleanup_kept(k) < 0) {
        return -1;
    }
    if (task->extra == NULL || task->extra->cleanup_timer == NULL) {
        return 0;
    }
    Timer *timer = (Timer *)Py_NewRef((PyObject *)task->extra->cleanup_timer);
    task->extra->cleanup_left_ns = timer->deadline_ns > k->now_ns ? timer->deadline_ns - k->now_ns : 0;
    int result = timers_disarm(k->timers, timer);
    if (result == 0) {
        Py_CLEAR(task->extra->cleanup_timer);
    }
    Py_DECREF(timer);
    return result;
}

/* The time for cleaning up runs, if the task is at it and not just waiting for cancelled children. */
int
cancel_resume_cleanup(Kernel *k, Task *task)
{
    if (cleanup_kept(k) < 0) {
        return -1;
    }
    const CancelScope *inner = task_inner(task);
    if (inner != NULL && inner->exiting && inner->body_of != NULL && inner->body_of->reason != NULL) {
        return 0;
    }
    if (task_cleanup_left(task) < 0 || task->extra->cleanup_timer != NULL) {
        return 0;
    }
    Timer *timer =
        timers_arm(k->st, k->timers, k_deadline(k, task->extra->cleanup_left_ns), LAW_TIMER_CLEANUP, task, NULL);
    if (timer == NULL) {
        return -1;
    }
    Py_XSETREF(task->extra->cleanup_timer, timer);
    return 0;
}

/* The block that was cancelled has been left in time. */
int
cancel_end_cleanup(Kernel *k, Task *task)
{
    if (task->extra == NULL) {
        return 0; /* it never began */
    }
    if (task->extra->cleanup_left >= 0 && NOTED(k, note_task(k, NOTE_CLEANUP_ENDED, task)) < 0) {
        return -1;
    }
    task->extra->cleanup_left = -1;
    if (PyDict_GET_SIZE(k->draining_holders) > 0) {
        int held = PyDict_Contains(k->draining_holders, (PyObject *)task);
        if (held < 0 || (held > 0 && PyDict_DelItem(k->draining_holders, (PyObject *)task) < 0)) {
            return -1;
        }
    }
    return cancel_pause_cleanup(k, task);
}
