/* Timers: one heap, ordered by (deadline, timer id). After src/bursar/law/timers.py; law/timers.h says why so.
 *
 * A timer knows its place in the heap: disarming takes it out at once. (In Python it is cheaper to leave a dead entry
 * behind; what comes out, and when, is the same.) The heap owns the timers in it, a timer owns its task, and records
 * of timers are used again: most are armed and disarmed without anybody having looked at them.
 *
 * HEAP-1, HEAP-2 and HEAP-3 of law/timers.h hold here too, with CHILDREN children per slot. The place of a timer that is
 * not armed is −1.
 *
 * Rejected: a table of timers by id, for `find`. A host asks for the timer that it was told to wake us for, which is
 * as good as always the first one; the look through the others that an alarm too late costs is cheaper than an entry
 * for every timer.
 */

#include "python/law/timers.h"
#include "python/trace/events.h"

enum {
    CHILDREN = 4, /* half as deep as with two */
    ROOM_MIN = 16,
};

/* ---- the heap */

/* The order of HEAP-1. */
static bool
earlier(const Timer *a, const Timer *b)
{
    return a->deadline_ns < b->deadline_ns || (a->deadline_ns == b->deadline_ns && a->id < b->id);
}

/* Put a timer at a place, and tell it (HEAP-2). */
static void
settle(Timers *timers, Py_ssize_t place, Timer *timer)
{
    timers->heap[place] = timer;
    timer->place = place;
}

/* Let a timer that belongs at `place` or above rise to where HEAP-1 holds. */
static void
rise(Timers *timers, Py_ssize_t place, Timer *timer)
{
    while (place > 0) {
        Py_ssize_t parent = (place - 1) / CHILDREN;
        if (!earlier(timer, timers->heap[parent])) {
            break;
        }
        settle(timers, place, timers->heap[parent]);
        place = parent;
    }
    settle(timers, place, timer);
}

/* Let a timer that belongs at `place` or below sink to where HEAP-1 holds. */
static void
sink(Timers *timers, Py_ssize_t place, Timer *timer)
{
    for (;;) {
        Py_ssize_t first = place * CHILDREN + 1;
        if (first >= timers->length) {
            break;
        }
        Py_ssize_t end = timers->length - first < CHILDREN ? timers->length : first + CHILDREN, least = first;
        for (Py_ssize_t child = first + 1; child < end; child++) {
            if (earlier(timers->heap[child], timers->heap[least])) {
                least = child;
            }
        }
        if (!earlier(timers->heap[least], timer)) {
            break;
        }
        settle(timers, place, timers->heap[least]);
        place = least;
    }
    settle(timers, place, timer);
}

/* Take a timer out; the last one fills the gap. The reference of the heap becomes the caller's. */
static void
take_out(Timers *timers, Timer *timer)
{
    Py_ssize_t place = timer->place;
    timer->place = -1;
    timers->length -= 1;
    if (place < timers->length) {
        Timer *last = timers->heap[timers->length];
        if (place > 0 && earlier(last, timers->heap[(place - 1) / CHILDREN])) {
            rise(timers, place, last);
        } else {
            sink(timers, place, last);
        }
    }
}

/* Room for one more. 0, or -1 with MemoryError set. */
static int
reserve(Timers *timers)
{
    if (timers->length < timers->room) {
        return 0;
    }
    Py_ssize_t room = timers->room < ROOM_MIN ? ROOM_MIN : 2 * timers->room;
    Timer **heap = PyMem_Realloc(timers->heap, (size_t)room * sizeof *heap);
    if (heap == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    timers->heap = heap;
    timers->room = room;
    return 0;
}

/* ---- what the kernel calls */

/* An empty heap; `k` is borrowed, and whoever ends it sets it to NULL here. A new reference, or NULL with MemoryError
 * set. */
Timers *
timers_new(State *st, Kernel *k)
{
    Timers *timers = (Timers *)st->Timers->tp_alloc(st->Timers, 0);
    if (timers != NULL) {
        timers->kernel = k;
        timers->next_id = 1;
    }
    return timers;
}

/* Tell whoever observes the kernel; timers without a kernel have an observer of their own. 0, or -1 with an exception
 * set. */
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
    PyObject *said = PyObject_CallFunction(observer, "sOO", what, task == NULL ? Py_None : (PyObject *)task, timer);
    Py_DECREF(observer);
    Py_XDECREF(said);
    return said == NULL ? -1 : 0;
}

/* A timer for the current poll of `task`, and room for it in the heap. NULL with MemoryError set. */
static Timer *
timer_new(State *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope)
{
    Timer *timer = (Timer *)free_take(&st->free_timers, st->Timer);
    if (timer == NULL && (timer = PyObject_GC_New(Timer, st->Timer)) == NULL) {
        return NULL;
    }
    timer->deadline_ns = deadline_ns;
    timer->generation = task->generation;
    timer->task = (Task *)Py_NewRef(task);
    timer->scope = Py_XNewRef(scope);
    timer->place = -1;
    timer->kind = (uint8_t)kind;
    PyObject_GC_Track((PyObject *)timer);
    if (reserve(timers) < 0) {
        Py_CLEAR(timer);
    }
    return timer;
}

/* Put a timer that there is room for into the heap. NULL, and it is let go, if the observer failed. */
static Timer *
put_in(Timers *timers, Timer *timer, uint64_t id)
{
    timer->id = id;
    timers->length += 1;
    rise(timers, timers->length - 1, (Timer *)Py_NewRef(timer));
    if (note(timers, NOTE_TIMER_ARMED, timer->task, timer) < 0) {
        Py_CLEAR(timer);
    }
    return timer;
}

/* Arm a timer for the current poll of `task`; `scope` may be NULL. A new reference. NULL with an exception set if there
 * is no memory, and nothing changed (HEAP-3), or if the observer failed, and the timer is armed. */
Timer *
timers_arm(State *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, scope);
    return timer == NULL ? NULL : put_in(timers, timer, timers->next_id++);
}

/* The same under a number that was taken before. */
Timer *
timers_arm_as(State *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, NULL);
    return timer == NULL ? NULL : put_in(timers, timer, id);
}

/* Disarm a timer. Idempotent: one that fired or was disarmed before stays as it is. 0, or -1 with an exception set if
 * the observer failed (it is disarmed all the same), or if the timer is armed elsewhere. */
int
timers_disarm(Timers *timers, Timer *timer)
{
    if (timer->place < 0) {
        return 0;
    }
    if (timer->place >= timers->length || timers->heap[timer->place] != timer) {
        PyErr_Format(PyExc_ValueError, "timer %llu is armed in another runtime; disarm it there",
                     (unsigned long long)timer->id);
        return -1;
    }
    take_out(timers, timer);
    Task *task = (Task *)Py_XNewRef(timer->task); /* NULL only in what the collector takes apart */
    int told = note(timers, NOTE_TIMER_DISARMED, task, timer);
    Py_XDECREF(task);
    Py_DECREF(timer); /* that of the heap */
    return told;
}

/* The timer that is due first, borrowed; NULL when none is armed. */
Timer *
timers_first(const Timers *timers)
{
    return timers->length == 0 ? NULL : timers->heap[0];
}

/* The next timer whose deadline has come, disarmed and without a note: a new reference; NULL, with no exception set,
 * when there is none. */
Timer *
timers_pop_due(Timers *timers, int64_t now_ns)
{
    Timer *first = timers_first(timers);
    if (first == NULL || first->deadline_ns > now_ns) {
        return NULL;
    }
    take_out(timers, first);
    return first;
}

/* ---- Timer, for Python */

static int
timer_traverse(Timer *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->task);
    Py_VISIT(self->scope);
    return 0;
}

static int
timer_clear(Timer *self)
{
    Py_CLEAR(self->task);
    Py_CLEAR(self->scope);
    return 0;
}

/* The record goes back to the list of free ones. It is in no heap, which would own it. */
static void
timer_dealloc(Timer *self)
{
    PyTypeObject *type = Py_TYPE(self);
    State *st = state_left(type);
    PyObject_GC_UnTrack(self);
    timer_clear(self);
    if (st == NULL || !free_give(&st->free_timers, (PyObject *)self)) {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

static PyObject *
timer_kind(Timer *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(state_of(Py_TYPE(self))->timer_kinds[self->kind]);
}

static PyObject *
timer_armed(Timer *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->place >= 0);
}

static PyMemberDef timer_members[] = {
    {"id", T_ULONGLONG, offsetof(Timer, id), READONLY, "its number; none is used twice"},
    {"deadline_ns", T_LONGLONG, offsetof(Timer, deadline_ns), READONLY, "when it is due"},
    {"generation", T_ULONGLONG, offsetof(Timer, generation), READONLY, "the poll of the task that armed it"},
    {"task", T_OBJECT, offsetof(Timer, task), READONLY, "whom it concerns"},
    {"scope", T_OBJECT, offsetof(Timer, scope), READONLY, "what a deadline cancels, or None"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef timer_getset[] = {
    {"kind", (getter)timer_kind, NULL, "what firing does", NULL},
    {"armed", (getter)timer_armed, NULL, "whether it will fire", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot timer_slots[] = {
    {Py_tp_doc, (void *)"One armed alarm."},
    {Py_tp_dealloc, (void *)timer_dealloc},
    {Py_tp_traverse, (void *)timer_traverse},
    {Py_tp_clear, (void *)timer_clear},
    {Py_tp_members, timer_members},
    {Py_tp_getset, timer_getset},
    {0, NULL},
};

PyType_Spec timer_spec = {
    .name = "bursar._native.Timer",
    .basicsize = (int)sizeof(Timer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = timer_slots,
};
