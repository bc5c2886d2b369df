/* Cleanup: the allowance, in ops and in time, of a task that was cancelled or ran out of budget. After law/cleanup.py.
 *
 * Nearly every cancelled task ends in the poll that delivers the cancellation. Its timer would be armed and disarmed in
 * that poll, and no code would see it. So, without an observer, the timer of the running task is only *promised*: it
 * gets its id and its deadline at once, as in Python, and is armed before any code could notice that it is missing.
 *
 *   CLEANUP-1  at most one timer is promised, to the running task; when its poll is over, the timer is armed or the
 *       task has ended
 *   CLEANUP-2  code that reads a timer or the heap, through Python or in `advance`, first arms the promised timer
 *   CLEANUP-3  the promised timer is armed before a request is performed, because arming may fail, and the request may
 *       put the task into a queue
 *
 * Rejected: arming the timer when the task waits again. The time counts from the delivery, whatever the task does.
 */

#include "python/law/cleanup.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/trace/events.h"

/* ---- the promise */

int
cleanup_promise(Kernel *k, Task *task)
{
    if (cleanup_arm_promised(k) < 0) { /* CLEANUP-1 */
        return -1;
    }
    k->postponed.promised = (Task *)Py_NewRef((PyObject *)task);
    k->postponed.promised_ns = k_deadline(k, k->cleanup_ns);
    k->postponed.promised_id = k->timers->next_id++;
    return 0;
}

int
cleanup_arm_promised_slow(Kernel *k)
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

int
cancel_pause_cleanup(Kernel *k, Task *task)
{
    if (cleanup_arm_promised(k) < 0) {
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

int
cancel_resume_cleanup(Kernel *k, Task *task)
{
    if (cleanup_arm_promised(k) < 0) {
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

int
cancel_end_cleanup(Kernel *k, Task *task)
{
    if (task->extra == NULL) {
        return 0; /* the cleanup never began, or left no record (CANCEL-5) */
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
