/* Timers: one heap, ordered by (deadline, timer id). After src/bursar/law/timers.py, on the heap of law/heap.h.
 *
 * The heap owns the timers in it, a timer owns its task, and records of timers are used again: most timers are armed and
 * disarmed without any code having looked at them.
 *
 * Rejected: a table of timers by id, for `find`. A host asks for the timer that it was told to wake us for, which is
 * nearly always the first one. After a late alarm a search through the others is cheaper than an entry for every timer.
 */

#include "python/law/timers.h"
#include "python/trace/events.h"

/* ---- what the kernel calls */

/* An empty heap; `k` is borrowed, and whoever ends it sets it to NULL here. A new reference, or NULL with MemoryError
 * set. */
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

/* Put a timer that there is room for into the heap. NULL, and it is let go, if the observer failed. */
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

/* Arm a timer for the current poll of `task`; `scope` may be NULL. A new reference. NULL with an exception set if there
 * is no memory, and nothing changed (HEAP-3), or if the observer failed, and the timer is armed. */
Timer *
timers_arm(ModuleState *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, scope);
    return timer == NULL ? NULL : put_in(timers, timer, timers->next_id++);
}

/* The same under a number that was taken before. */
Timer *
timers_arm_as(ModuleState *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task)
{
    Timer *timer = timer_new(st, timers, deadline_ns, kind, task, NULL);
    return timer == NULL ? NULL : put_in(timers, timer, id);
}

/* Disarm a timer. Idempotent: one that fired or was disarmed before stays as it is. 0, or -1 with an exception set if
 * the observer failed (it is disarmed all the same), or if the timer is armed elsewhere. */
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
    const LawHeapSlot *first = law_heap_first(&timers->heap);
    return first == NULL ? NULL : LAW_RECORD(first->entry, Timer, entry);
}

/* The next timer whose deadline has come, disarmed and without a note: a new reference; NULL, with no exception set,
 * when there is none. */
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
    ModuleState *st = state_left(type);
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
    return PyBool_FromLong(self->entry != 0);
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
