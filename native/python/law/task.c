/* The record of a task: how it is made and freed, its children, outcome and state. After law/task.py. Nothing here
 * decides.
 *
 * The record is small, because a parked task is little more than its record. Fields that most tasks never need (cancel
 * scopes, a cancellation, obligations) are made at their first use. Tasks of equal spawns share what they have in
 * common (spawn_terms.c). The attributes for Python are in task_py.c.
 */

#include "python/law/task.h"
#include "python/law/admission/ticket.h"
#include "python/module/seam.h"
#include "python/ops/request.h"

/* ---- making and freeing */

TaskExtra *
task_extra(Task *self)
{
    if (self->extra == NULL) {
        TaskExtra *extra = PyMem_Calloc(1, sizeof(TaskExtra));
        if (extra == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        law_queue_init(&extra->owned);
        extra->short_of = -1;
        extra->requested = task_requested(self); /* CANCEL-5 in cancel.c: from now on these fields hold the values */
        extra->draining = task_draining(self);
        extra->reason = Py_XNewRef(task_reason(self));
        extra->cleanup_left = task_cleanup_left(self);
        extra->cleanup_left_ns = extra->cleanup_left >= 0 ? task_kernel(self)->cleanup_ns : 0;
        self->extra = extra;
    }
    return self->extra;
}

int
task_visit(Task *self, visitproc visit, void *arg)
{
    Py_VISIT(self->nursery);
    Py_VISIT(self->work);
    Py_VISIT(self->context);
    Py_VISIT(self->answer);
    Arguments *arguments = task_arguments(self);
    for (Py_ssize_t i = 0; arguments != NULL && i < Py_SIZE(arguments); i++) {
        Py_VISIT(arguments->item[i]);
    }
    Py_VISIT(self->pending);
    Py_VISIT(self->terms);
    if (self->timed) {
        Py_VISIT(self->timer);
    }
    TaskExtra *extra = self->extra;
    if (extra != NULL) {
        Py_VISIT(extra->reason);
        Py_VISIT(extra->inner);
        Py_VISIT(extra->obligations);
        Py_VISIT(extra->waiters);
        Py_VISIT(extra->cleanup_timer);
        Py_VISIT(extra->credit_of);
        Py_VISIT(extra->ending);
        int stop = ticket_visit(extra->ticket, visit, arg);
        if (stop != 0) {
            return stop;
        }
        Py_VISIT(extra->memory);
        Py_VISIT(extra->named_spent);
        for (LawLink *l = law_queue_oldest(&extra->owned); l != NULL; l = law_queue_newer(&extra->owned, l)) {
            Py_VISIT(LAW_RECORD(l, Nursery, owned_link));
        }
    }
    return 0;
}

static void
drop_extra(Task *self)
{
    TaskExtra *extra = self->extra;
    self->extra = NULL;
    if (extra == NULL) {
        return;
    }
    LawLink *link;
    while ((link = law_queue_take_oldest(&extra->owned)) != NULL) {
        Py_DECREF(LAW_RECORD(link, Nursery, owned_link));
    }
    Py_CLEAR(extra->reason);
    Py_CLEAR(extra->inner);
    Py_CLEAR(extra->obligations);
    Py_CLEAR(extra->waiters);
    Py_CLEAR(extra->cleanup_timer);
    Py_CLEAR(extra->credit_of);
    Py_CLEAR(extra->ending);
    ticket_release(extra->ticket);
    Py_CLEAR(extra->memory);
    Py_CLEAR(extra->named_spent);
    PyMem_Free(extra);
}

/* Leave the wait list or the timer of a bare wait. If a program drops a run in the middle, a list may outlive the
 * task. */
static void
leave_lists(Task *self)
{
    if (self->bare && self->timed) {
        self->timed = 0;
        Timer *timer = self->timer;
        self->timer = NULL;
        Py_XDECREF(timer);
    } else if (self->bare && law_linked(&self->link) && self->pending != NULL) {
        operation_delist(NULL, self->pending, (PyObject *)self);
    }
    self->bare = 0;
}

int
task_clear(Task *self)
{
    leave_lists(self);
    Py_CLEAR(self->work);
    Py_CLEAR(self->context);
    Py_CLEAR(self->answer);
    Py_CLEAR(self->pending);
    drop_extra(self);
    Py_CLEAR(self->terms);
    Py_CLEAR(self->nursery);
    return 0;
}

/* Free a record that holds nothing but its name. */
static inline void
drop_record(Task *self)
{
    ModuleState *st = state_left(Py_TYPE(self));
    Py_DECREF(self->name);
    free_drop(st ? &st->free_tasks : NULL, (PyObject *)self);
}

enum { DEALLOC_DEPTH_MAX = 50 }; /* each level is a few small frames, so that any stack has room for so many */

/* The result of a task may be the handle of another task, and so on. A deep chain waits in a list of the module.
 * Rejected: CPython's trashcan. From 3.13 on it nests 10,000 levels, too many for a stack of 1 MB. */
NOINLINE static void
dealloc_slow(Task *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ModuleState *st = state_left(type);
    if (st != NULL && st->dealloc_depth >= DEALLOC_DEPTH_MAX) {
        leave_lists(self); /* then its link is free */
        self->link.newer = st->dealloc_later;
        st->dealloc_later = &self->link;
        return;
    }
    Py_INCREF(type); /* and so the module's state */
    while (self != NULL) {
        if (st != NULL) {
            st->dealloc_depth++;
        }
        task_clear(self);
        drop_record(self);
        self = NULL;
        if (st != NULL && --st->dealloc_depth == 0 && st->dealloc_later != NULL) {
            self = LAW_RECORD(st->dealloc_later, Task, link);
            st->dealloc_later = self->link.newer;
            self->link.newer = NULL;
        }
    }
    Py_DECREF(type);
}

/* Whether a result holds no other object, so that freeing it frees no other task. */
static inline bool
holds_nothing(const PyObject *result)
{
    return result == NULL || result == Py_None || PyLong_CheckExact(result) || PyUnicode_CheckExact(result);
}

/* A task with a plain end has dropped its nursery (RECORD-4), and has only its terms and its result left. */
void
task_dealloc(Task *self)
{
    PyObject_GC_UnTrack(self);
    if (!LIKELY(self->nursery == NULL && self->extra == NULL && self->state == LAW_STATE_DONE &&
                holds_nothing(self->work))) {
        dealloc_slow(self);
        return;
    }
    Py_XDECREF(self->work);
    Py_XDECREF((PyObject *)self->terms);
    drop_record(self);
}

PyObject *
task_raise_later(ModuleState *st)
{
    PyObject *error = taken_error();
    if (!PyErr_GivenExceptionMatches(error, PyExc_Exception)) {
        PyErr_SetRaisedException(error);
        return NULL;
    }
    PyObject *work = py_call(st, PY_raise_later, &error, 1);
    Py_DECREF(error);
    return work;
}

/* ---- children, outcome, state */

bool
task_has_children(const Task *self)
{
    if (self->extra == NULL) {
        return false;
    }
    const LawQueue *owned = &self->extra->owned;
    for (LawLink *l = law_queue_oldest(owned); l != NULL; l = law_queue_newer(owned, l)) {
        if (!law_queue_empty(&LAW_RECORD(l, Nursery, owned_link)->children)) {
            return true;
        }
    }
    return false;
}

PyObject *
task_outcome(ModuleState *st, Task *self)
{
    if (self->state != LAW_STATE_DONE) {
        Py_RETURN_NONE;
    }
    if (!self->whole) {
        PyObject *content = self->work ? self->work : Py_None;
        PyObject *value = self->kind == LAW_OUTCOME_OK ? content : Py_None;
        bool failed = self->kind == LAW_OUTCOME_FAILED || self->kind == LAW_OUTCOME_PANICKED;
        PyObject *error = failed ? content : Py_None;
        PyObject *reason = self->kind != LAW_OUTCOME_OK && !failed ? content : Py_None;
        PyObject *fields[] = {st->kinds[self->kind], value, error, reason};
        PyObject *made = frozen_new(st->Outcome, st->outcome_slots, fields, 4);
        if (made == NULL) {
            return NULL;
        }
        Py_XSETREF(self->work, made);
        self->whole = 1;
    }
    return Py_NewRef(self->work);
}

int
task_move(Task *self, LawState to)
{
    if (!law_may_move(self->state, to)) {
        ModuleState *st = PyType_GetModuleState(Py_TYPE(self));
        PyObject *args[] = {(PyObject *)self, st->states[to]};
        PyObject *none = py_call(st, PY_refuse_move, args, 2); /* raises IllegalTransition */
        Py_XDECREF(none);
        return -1;
    }
    law_state_move(&self->state, self->state, to);
    return 0;
}

/* ---- the arguments of a task that has not begun
 *
 * The function of the task is called with them at the first poll. Only the task refers to them, and it visits what they
 * hold as if the task held it (RECORD-4). So the collector neither tracks nor counts them. Rejected: a tuple. The
 * collector counts each new tuple, so spawning many tasks with arguments would start collections.
 */

/* One argument takes 32 bytes, a size that no tracked object has. Two or more get at least NUMEROUS_SIZE_MIN bytes, so that
 * they do not lie between tracked objects of the same size (freelist.h). */
PyObject *
arguments_new(ModuleState *st, PyObject *const *items, Py_ssize_t n)
{
    size_t size = offsetof(Arguments, item) + (size_t)n * sizeof(PyObject *);
    Arguments *self = PyObject_Malloc(n > 1 && size < NUMEROUS_SIZE_MIN ? NUMEROUS_SIZE_MIN : size);
    if (self == NULL) {
        return PyErr_NoMemory();
    }
    PyObject_InitVar((PyVarObject *)self, st->Arguments, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        self->item[i] = Py_NewRef(items[i]);
    }
    return (PyObject *)self;
}

void
arguments_dealloc(Arguments *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_DECREF(self->item[i]);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot arguments_slots[] = {
    {Py_tp_doc, "The arguments of a task that has not begun."},
    {Py_tp_dealloc, arguments_dealloc},
    {0, NULL},
};

PyType_Spec arguments_spec = {
    .name = "bursar._native.Arguments",
    .basicsize = offsetof(Arguments, item),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = arguments_slots,
};
