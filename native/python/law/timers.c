/* Timers: arming, disarming and firing them. After law/timers.py, and `Kernel.advance` in law/kernel.py.
 *
 * Armed timers are in one heap (law/heap.h), ordered by (deadline, timer id). A timer that fires wakes a task, requests
 * a cancellation, ends a cleanup or calls a ticket; it never polls a task. A timer that fires after its wait is over
 * becomes a `stale_timer` record, never an error.
 *
 * The heap owns the timers in it, and a timer owns its task. Freed timers are kept in a free list, because timers are
 * made and freed all the time.
 *
 * Rejected: a table of timers by id, for `find`. A host looks for the timer that it was waiting for, which is nearly
 * always the first one. Searching the heap after a late alarm is cheaper than a table entry for every timer.
 */

#include "python/law/timers.h"
#include "python/law/cancel_request.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/dispatch_wake.h"
#include "python/law/kernel.h"
#include "python/law/observer.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* ---- the heap */

Timers *
timers_new(ModuleState *st, Kernel *k)
{
    Timers *timers = (Timers *)st->Timers->tp_alloc(st->Timers, 0);
    if (timers != NULL) {
        timers->kernel = k;
        timers->next_id = 1;
    }
    return timers;
}

/* Give an event to the observer of the kernel. Timers without a kernel have their own observer. 0, or -1 with an
 * exception set, only from that one. */
static int
note(Timers *timers, Note which, Task *task, Timer *timer)
{
    if (timers->kernel != NULL) {
        return NOTED(timers->kernel, note_timer(timers->kernel, which, task, timer));
    }
    if (timers->observer == NULL) {
        return 0;
    }
    const char *what = which == NOTE_TIMER_ARMED ? "timer_armed" : "timer_disarmed";
    PyObject *observer = Py_NewRef(timers->observer);
    PyObject *none = PyObject_CallFunction(observer, "sOO", what, task == NULL ? Py_None : (PyObject *)task, timer);
    Py_DECREF(observer);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

/* Make a timer for the current poll of `task`, and room for it in the heap. NULL with MemoryError set. */
static Timer *
timer_new(ModuleState *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope)
{
    Timer *timer = (Timer *)free_take(&st->free_timers, st->Timer);
    if (timer == NULL && (timer = PyObject_GC_New(Timer, st->Timer)) == NULL) {
        return NULL;
    }
    timer->deadline_ns = deadline_ns;
    timer->generation = task->generation;
    timer->task = (Task *)Py_NewRef(task);
    timer->scope = Py_XNewRef(scope);
    timer->entry = 0;
    timer->kind = (uint8_t)kind;
    PyObject_GC_Track((PyObject *)timer);
    if (!law_heap_reserve(&timers->heap, heap_memory, NULL)) {
        PyErr_NoMemory();
        Py_CLEAR(timer);
    }
    return timer;
}

/* Put a timer into the heap, which has room. NULL with an exception set if the observer failed; the heap then owns the
 * only reference. */
static Timer *
put_in(Timers *timers, Timer *timer, uint64_t id)
{
    timer->id = id;
    Py_INCREF(timer); /* for the heap */
    law_heap_push(&timers->heap, &timer->entry, timer->deadline_ns, id);
    if (note(timers, NOTE_TIMER_ARMED, timer->task, timer) < 0) {
        Py_CLEAR(timer);
    }
    return timer;
}

Timer *
timers_arm(ModuleState *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, scope);
    return timer == NULL ? NULL : put_in(timers, timer, timers->next_id++);
}

Timer *
timers_arm_as(ModuleState *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, NULL);
    return timer == NULL ? NULL : put_in(timers, timer, id);
}

int
timers_disarm(Timers *timers, Timer *timer)
{
    if (timer->entry == 0) {
        return 0;
    }
    if (!law_heap_has(&timers->heap, &timer->entry)) {
        PyErr_Format(PyExc_ValueError, "timer %llu is armed in another runtime; disarm it there",
                     (unsigned long long)timer->id);
        return -1;
    }
    law_heap_remove(&timers->heap, &timer->entry);
    Task *task = (Task *)Py_XNewRef(timer->task); /* NULL only if the collector has cleared the timer */
    int failed = note(timers, NOTE_TIMER_DISARMED, task, timer);
    Py_XDECREF(task);
    Py_DECREF(timer); /* the reference of the heap */
    return failed;
}

Timer *
timers_first(const Timers *timers)
{
    const LawHeapSlot *first = law_heap_first(&timers->heap);
    return first == NULL ? NULL : LAW_RECORD(first->entry, Timer, entry);
}

Timer *
timers_pop_due(Timers *timers, int64_t now_ns)
{
    LawHeapEntry *due = law_heap_due(&timers->heap, now_ns);
    if (due == NULL) {
        return NULL;
    }
    law_heap_remove(&timers->heap, due);
    return LAW_RECORD(due, Timer, entry);
}

/* ---- firing */

static int
stale_timer(Kernel *k, Task *task, uint64_t id, uint64_t generation)
{
    if (k_count(k, "stale_timer") < 0) {
        return -1;
    }
    return NOTE(k, "stale_timer", task, Py_BuildValue("KK", (unsigned long long)id, (unsigned long long)generation));
}

/* End the wait of a task because its timer fired, and queue the task. */
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

/* Call `expired` of a wait or a ticket. */
static int
expire(Kernel *k, PyObject *target, Timer *timer)
{
    Py_INCREF(target); /* RECORD-3 */
    PyObject *none = PyObject_CallMethod(target, "expired", "OO", (PyObject *)k, (PyObject *)timer);
    Py_XDECREF(none);
    Py_DECREF(target);
    return none == NULL ? -1 : 0;
}

/* The timer of a paused task fired: call `expired` of its wait, if the wait is written in Python. The wait goes on
 * until the task is resumed. */
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

/* Wake the task or request the cancellation that the timer was armed for. No task runs here. */
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

PyObject *
kernel_advance(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    long long now_ns = n >= 1 ? PyLong_AsLongLong(args[0]) : -1, most = -1, fired = 0;
    if (n >= 2 && args[1] != Py_None) {
        most = PyLong_AsLongLong(args[1]);
    }
    if (n < 1 || n > 2 || PyErr_Occurred()) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "advance() takes the time and the largest number of timers to fire");
        }
        return NULL;
    }
    if (!kernel_is_whole(k)) {
        return NULL;
    }
    k->now_ns = now_ns > k->now_ns ? now_ns : k->now_ns;
    if (cleanup_arm_promised(k) < 0) {
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
