/* The Python types `Timer` and `Timers`, with the attributes of their namesakes in law/timers.py.
 *
 * timers.c has the heap. One difference from Python remains: a time is a signed 64-bit number of nanoseconds, which
 * ends after 292 years. `arm` replaces a later deadline by the largest number; `pop_due` raises OverflowError for a
 * later time.
 */

#include "python/law/cleanup.h"
#include "python/law/observer.h"
#include "python/law/timers.h"

/* ---- Timer */

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

/* Put the record into the free list. It is in no heap, because a heap would own a reference. */
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
    {"id", T_ULONGLONG, offsetof(Timer, id), READONLY, "the number of the timer; no number is used twice"},
    {"deadline_ns", T_LONGLONG, offsetof(Timer, deadline_ns), READONLY, "when the timer is due"},
    {"generation", T_ULONGLONG, offsetof(Timer, generation), READONLY, "the poll in which the task armed the timer"},
    {"task", T_OBJECT, offsetof(Timer, task), READONLY, "the task that the timer is for"},
    {"scope", T_OBJECT, offsetof(Timer, scope), READONLY, "the scope that a deadline cancels, or None"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef timer_getset[] = {
    {"kind", (getter)timer_kind, NULL, "what the timer does when it fires", NULL},
    {"armed", (getter)timer_armed, NULL, "whether the timer is armed", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot timer_slots[] = {
    {Py_tp_doc, (void *)"One timer."},
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

/* ---- Timers */

static PyObject *
timers_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    ModuleState *st = state_of(type);
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, ":Timers", names)) {
        return NULL;
    }
    return (PyObject *)timers_new(st, NULL);
}

/* The timer in one slot of a heap. */
static Timer *
timer_at(const LawHeap *heap, uint32_t place)
{
    return LAW_RECORD(heap->slots[place].entry, Timer, entry);
}

static int
timers_traverse(Timers *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->observer);
    for (uint32_t i = 0; i < self->heap.count; i++) {
        Py_VISIT(timer_at(&self->heap, i));
    }
    return 0;
}

/* Empty the heap. Timers that other code still holds are not armed any more. */
static int
timers_clear(Timers *self)
{
    LawHeap heap = self->heap;
    self->heap = (LawHeap){0};
    for (uint32_t i = 0; i < heap.count; i++) {
        *heap.slots[i].entry = 0;
    }
    for (uint32_t i = 0; i < heap.count; i++) {
        Py_DECREF(timer_at(&heap, i)); /* may run any code, which no longer finds the old heap */
    }
    PyMem_Free(heap.slots);
    Py_CLEAR(self->observer);
    return 0;
}

static void
timers_dealloc(Timers *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    timers_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Arm the promised timer before Python reads the heap (CLEANUP-2 in cleanup.c). 0, or -1 with an exception set. */
static int
arm_promised_timer(Timers *self)
{
    return self->kernel == NULL ? 0 : cleanup_arm_promised(self->kernel);
}

static Py_ssize_t
timers_length(Timers *self)
{
    return arm_promised_timer(self) < 0 ? -1 : (Py_ssize_t)self->heap.count;
}

/* A new reference to a borrowed timer, or to None. */
static PyObject *
or_none(Timer *timer)
{
    return Py_NewRef(timer == NULL ? Py_None : (PyObject *)timer);
}

PyDoc_STRVAR(arm_doc, "arm(deadline_ns, kind, task, scope=None)\n--\n\n"
                      "Arm a timer for the current poll of `task`.");

static PyObject *
py_arm(Timers *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"deadline_ns", "kind", "task", "scope", NULL};
    ModuleState *st = state_of(Py_TYPE(self));
    int kind, beyond;
    PyObject *deadline, *task, *scope = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iO!|O:arm", names, &PyLong_Type, &deadline, &kind, st->Task,
                                     &task, &scope)) {
        return NULL;
    }
    long long deadline_ns = PyLong_AsLongLongAndOverflow(deadline, &beyond);
    if (beyond < 0) {
        PyErr_SetString(PyExc_OverflowError, "deadline_ns is below the smallest time that the native kernel can hold");
        return NULL;
    }
    deadline_ns = beyond > 0 ? INT64_MAX : deadline_ns; /* the largest time */
    if (kind < LAW_TIMER_WAKE || kind > LAW_TIMER_PERMIT) {
        PyErr_Format(PyExc_ValueError, "%d is not a valid TimerKind", kind);
        return NULL;
    }
    return (PyObject *)timers_arm(st, self, deadline_ns, kind, (Task *)task, scope == Py_None ? NULL : scope);
}

PyDoc_STRVAR(disarm_doc, "disarm(timer)\n--\n\n"
                         "Idempotent: a timer that fired or was disarmed before stays as it is.");

static PyObject *
py_disarm(Timers *self, PyObject *timer)
{
    if (Py_TYPE(timer) != state_of(Py_TYPE(self))->Timer) {
        PyErr_Format(PyExc_TypeError, "disarm(%R): not a timer of this runtime", timer);
        return NULL;
    }
    if (timers_disarm(self, (Timer *)timer) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Read the id or the generation that a host reports. 1; 0 if no timer can have this number; -1 with an exception set if
 * it is no number. */
static int
read_reported_number(PyObject *value, uint64_t *number)
{
    *number = PyLong_AsUnsignedLongLong(value);
    if (*number != UINT64_MAX || !PyErr_Occurred()) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

PyDoc_STRVAR(find_doc, "find(id, generation)\n--\n\n"
                       "The armed timer with this id and generation, or None if it is no longer armed.");

static PyObject *
py_find(Timers *self, PyObject *const *args, Py_ssize_t n)
{
    uint64_t id, generation;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "find() takes the id and the generation of a timer");
        return NULL;
    }
    int known = read_reported_number(args[0], &id), polled = read_reported_number(args[1], &generation);
    if (known < 0 || polled < 0 || arm_promised_timer(self) < 0) {
        return NULL;
    }
    for (uint32_t i = 0; known && polled && i < self->heap.count; i++) {
        if (self->heap.slots[i].id == id) {
            Timer *timer = timer_at(&self->heap, i);
            return or_none(timer->generation == generation ? timer : NULL);
        }
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(next_deadline_doc, "next_deadline_ns()\n--\n\n"
                                "When the next timer is due, or None.");

static PyObject *
py_next_deadline_ns(Timers *self, PyObject *Py_UNUSED(args))
{
    if (arm_promised_timer(self) < 0) {
        return NULL;
    }
    const Timer *first = timers_first(self);
    return first == NULL ? NOTHING : PyLong_FromLongLong(first->deadline_ns);
}

PyDoc_STRVAR(next_doc, "next()\n--\n\n"
                       "The timer that is due first, or None.");

static PyObject *
py_next(Timers *self, PyObject *Py_UNUSED(args))
{
    return arm_promised_timer(self) < 0 ? NULL : or_none(timers_first(self));
}

PyDoc_STRVAR(pop_due_doc, "pop_due(now_ns)\n--\n\n"
                          "Disarm and return the next due timer; None if no timer is due.");

static PyObject *
py_pop_due(Timers *self, PyObject *now_given)
{
    long long now_ns = PyLong_AsLongLong(now_given);
    if ((now_ns == -1 && PyErr_Occurred()) || arm_promised_timer(self) < 0) {
        return NULL;
    }
    Timer *timer = timers_pop_due(self, now_ns);
    return timer == NULL ? NOTHING : (PyObject *)timer;
}

static PyObject *
get_observer(Timers *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->observer == NULL ? Py_None : self->observer);
}

static int
set_observer(Timers *self, PyObject *value, void *Py_UNUSED(closure))
{
    PyObject *observer = value == Py_None ? NULL : value;
    Py_XINCREF(observer);
    Py_XSETREF(self->observer, observer);
    return 0;
}

static PyMethodDef timers_methods[] = {
    {"arm", (PyCFunction)(void *)py_arm, METH_VARARGS | METH_KEYWORDS, arm_doc},
    {"disarm", (PyCFunction)py_disarm, METH_O, disarm_doc},
    {"find", (PyCFunction)(void *)py_find, METH_FASTCALL, find_doc},
    {"next_deadline_ns", (PyCFunction)py_next_deadline_ns, METH_NOARGS, next_deadline_doc},
    {"next", (PyCFunction)py_next, METH_NOARGS, next_doc},
    {"pop_due", (PyCFunction)py_pop_due, METH_O, pop_due_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef timers_getset[] = {
    {"observer", (getter)get_observer, (setter)set_observer, "the observer of the kernel, which sets both", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot timers_slots[] = {
    {Py_tp_doc, (void *)"The heap of armed timers."},
    {Py_tp_new, (void *)timers_tp_new},
    {Py_tp_dealloc, (void *)timers_dealloc},
    {Py_tp_traverse, (void *)timers_traverse},
    {Py_tp_clear, (void *)timers_clear},
    {Py_sq_length, (void *)timers_length},
    {Py_tp_methods, timers_methods},
    {Py_tp_getset, timers_getset},
    {0, NULL},
};

PyType_Spec timers_spec = {
    .name = "bursar._native.Timers",
    .basicsize = (int)sizeof(Timers),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = timers_slots,
};
