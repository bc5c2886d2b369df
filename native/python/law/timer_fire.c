/* The passing of time: what a timer that is due does. After law/kernel.py.
 *
 * A timer enqueues what it stands for; it never polls a task. A timer that fires after its wait is over is stale: it is
 * counted and recorded, and is no error.
 */

#include "python/law/timer_fire.h"
#include "python/law/cancel_request.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/observer.h"
#include "python/law/timers.h"
#include "python/law/wake.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

static int
stale_timer(Kernel *k, Task *task, uint64_t id, uint64_t generation)
{
    if (k_count(k, "stale_timer") < 0) {
        return -1;
    }
    return NOTE(k, "stale_timer", task, Py_BuildValue("KK", (unsigned long long)id, (unsigned long long)generation));
}

/* The wait that a timer was to end, is over: it leaves its queues and the task is queued. */
static int
wake_by_timer(Kernel *k, Task *task, Timer *timer)
{
    PyObject *wait = task->pending;
    if (wait == NULL || task->bare || Py_TYPE(wait) == k->st->Entry) {
        return k_end_wait(k, task, true, timer->deadline_ns);
    }
    task->pending = NULL;
    PyObject *none = PyObject_CallMethod(wait, "expired", "OO", (PyObject *)k, (PyObject *)timer);
    if (none == NULL) {
        k_defer_error(k);
    }
    Py_XDECREF(none);
    int failed = k_ready(k, task, true, timer->deadline_ns);
    Py_DECREF(wait); /* last, as in `k_end_wait` */
    return failed;
}

/* Tell something of Python's that a timer of its has fired. */
static int
expire(Kernel *k, PyObject *whose, Timer *timer)
{
    Py_INCREF(whose); /* RECORD-3 */
    PyObject *none = PyObject_CallMethod(whose, "expired", "OO", (PyObject *)k, (PyObject *)timer);
    Py_XDECREF(none);
    Py_DECREF(whose);
    return none == NULL ? -1 : 0;
}

/* A paused task's timer: its wait is told, if it is one that wants to know, and goes on until the task does. */
static int
expire_paused(Kernel *k, Task *task, Timer *timer)
{
    PyObject *wait = task->pending;
    bool ours = wait == NULL || task->bare || Py_TYPE(wait) == k->st->Entry;
    return ours ? 0 : expire(k, wait, timer);
}

static int
expire_ticket(Kernel *k, Task *task, Timer *timer)
{
    PyObject *ticket = task->extra ? task->extra->ticket : NULL;
    return ticket == NULL ? 0 : expire(k, ticket, timer);
}

/* Enqueue what a timer stands for; never run anything. */
static int
fire(Kernel *k, Timer *timer)
{
    Task *task = timer->task;
    if (timer->kind == LAW_TIMER_WAKE && k_reserve_timed(k, task) < 0) {
        return -1;
    }
    if (NOTED(k, note_timer(k, NOTE_TIMER_FIRED, task, timer)) < 0) {
        return -1;
    }
    switch (timer->kind) {
    case LAW_TIMER_WAKE: {
        bool waits = task->state == LAW_STATE_BLOCKED && task->pending != NULL;
        LawNotice notice = law_notify(&task->wake, task->generation, timer->generation, waits);
        if (notice == LAW_NOTICE_ENQUEUE) {
            return wake_by_timer(k, task, timer);
        }
        if (notice == LAW_NOTICE_NOTED && task->state == LAW_STATE_BLOCKED) {
            return expire_paused(k, task, timer);
        }
        return notice == LAW_NOTICE_STALE ? stale_timer(k, task, timer->id, timer->generation) : 0;
    }
    case LAW_TIMER_DEADLINE: {
        PyObject *detail = PyUnicode_FromString("the time is up");
        PyObject *why = detail ? cancel_reason_new(k->st, LAW_CANCEL_TIMEOUT, detail, Py_None) : NULL;
        int failed = why == NULL ? -1 : cancel_request(k, timer->scope, why);
        Py_XDECREF(detail);
        Py_XDECREF(why);
        return failed;
    }
    case LAW_TIMER_PERMIT:
        return expire_ticket(k, task, timer);
    default: {
        PyObject *args[] = {(PyObject *)k, (PyObject *)task};
        PyObject *done = py_call(k->st, PY_cleanup_too_long, args, 2);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    }
}

/* kernel.advance(now_ns, most=None) */
PyObject *
kernel_advance(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    long long now_ns = n >= 1 ? PyLong_AsLongLong(args[0]) : -1, most = -1, fired = 0;
    if (n >= 2 && args[1] != Py_None) {
        most = PyLong_AsLongLong(args[1]);
    }
    if (n < 1 || n > 2 || PyErr_Occurred()) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "advance() takes the time and how many timers may fire");
        }
        return NULL;
    }
    k->now_ns = now_ns > k->now_ns ? now_ns : k->now_ns;
    if (cleanup_kept(k) < 0) {
        return NULL;
    }
    Timer *timer;
    while (fired != most && (timer = timers_pop_due(k->timers, k->now_ns)) != NULL) {
        int failed = fire(k, timer);
        Py_DECREF(timer);
        if (failed < 0) {
            return NULL;
        }
        fired += 1;
    }
    return k_check_deferred(k) < 0 ? NULL : PyLong_FromLongLong(fired);
}

/* kernel._fire(timer): for a host that reports one timer */
PyObject *
kernel_fire(Kernel *k, PyObject *timer)
{
    if (Py_TYPE(timer) != k->st->Timer) {
        PyErr_SetString(PyExc_TypeError, "_fire() takes a timer");
        return NULL;
    }
    if (fire(k, (Timer *)timer) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
