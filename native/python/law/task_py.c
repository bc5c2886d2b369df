/* The Python type `Task`: the attributes of its namesake in law/task.py.
 *
 * The rare parts of the law are Python methods. They read and write the record through these attributes.
 */

#include "python/cpython/context.h"
#include "python/law/cleanup.h"
#include "python/law/spawn_terms.h"
#include "python/law/task.h"
#include "python/law/wait.h"

static int
task_traverse(Task *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return task_visit(self, visit, arg);
}

#define ST(self) ((ModuleState *)PyType_GetModuleState(Py_TYPE(self)))
#define GET(name, expression)                                         \
    static PyObject *get_##name(Task *self, void *Py_UNUSED(closure)) \
    {                                                                 \
        (void)self;                                                   \
        return expression;                                            \
    }
#define OR_NONE(x) Py_NewRef((x) ? (PyObject *)(x) : Py_None)
#define EXTRA(field) (self->extra ? (PyObject *)self->extra->field : NULL)

/* Arm the promised timer before Python reads a timer field (CLEANUP-2 in cleanup.c). 0, or -1 with an exception set. */
static int
arm_promised_timer(const Task *self)
{
    Kernel *k = self->nursery ? self->nursery->kernel : NULL;
    return k == NULL ? 0 : cleanup_arm_promised(k);
}

GET(id, PyLong_FromUnsignedLongLong(self->id))
GET(name, Py_NewRef(self->name))
GET(nursery, OR_NONE(self->nursery))
GET(state, Py_NewRef(ST(self)->states[self->state]))
GET(outcome, task_outcome(ST(self), self))
GET(wake, Py_NewRef(ST(self)->wakes[self->wake]))
GET(generation, PyLong_FromUnsignedLongLong(self->generation))
GET(lane, self->lane == LAW_LANE_IDLE ? Py_NewRef(Py_None) : Py_NewRef(ST(self)->lanes[self->lane]))
GET(worker, PyLong_FromLong(self->worker))
GET(pinned, PyBool_FromLong(self->pinned))
GET(started, PyBool_FromLong(self->started))
GET(wait, task_wait(ST(self), self))
GET(since_ns, PyLong_FromLongLong(self->since_ns))
GET(inbox, OR_NONE(self->raises || task_not_begun(self) ? NULL : self->answer))
GET(error, OR_NONE(self->raises ? self->answer : NULL))
GET(effect, PyBool_FromLong(self->effect))
GET(waiters, OR_NONE(EXTRA(waiters)))
GET(obligations, OR_NONE(EXTRA(obligations)))
GET(inner, OR_NONE(EXTRA(inner)))
GET(requested, PyLong_FromLong(task_requested(self)))
GET(draining, PyLong_FromLong(task_draining(self)))
GET(cancel_pending, PyBool_FromLong(self->cancel_pending))
GET(cleanup_left, PyLong_FromLongLong(task_cleanup_left(self)))
GET(cleanup_left_ns,
    arm_promised_timer(self) < 0 ? NULL : PyLong_FromLongLong(self->extra ? self->extra->cleanup_left_ns : 0))
GET(cleanup_timer, arm_promised_timer(self) < 0 ? NULL : OR_NONE(EXTRA(cleanup_timer)))
GET(cut, PyBool_FromLong(self->cut))
GET(ending, OR_NONE(EXTRA(ending)))
GET(ticket, OR_NONE(EXTRA(ticket)))
GET(pools, OR_NONE(self->terms ? self->terms->pools : NULL))
GET(purse_of, OR_NONE(self->nursery ? self->nursery->pools : self->terms ? self->terms->pools : NULL))
GET(credit_used, PyLong_FromLongLong(self->extra ? self->extra->credit_used : 0))
GET(credit_of, OR_NONE(EXTRA(credit_of)))
GET(turn_left, PyLong_FromLong(self->turn_left))
GET(named_spent, OR_NONE(self->extra ? self->extra->named_spent : NULL))
GET(cpu_due, PyLong_FromLongLong(self->extra ? self->extra->cpu_due : 0))
GET(short_of, PyLong_FromLong(self->extra ? self->extra->short_of : -1))
GET(capabilities, OR_NONE(self->terms ? self->terms->capabilities : NULL))
GET(spawn_cap, OR_NONE(self->terms ? self->terms->spawn_cap : NULL))
GET(context, self->borrows && self->context && context_of_its_own(self) < 0 ? NULL : OR_NONE(self->context))
GET(unpaid_request, OR_NONE(self->state == LAW_STATE_BLOCKED ? NULL : self->pending))
GET(phase, Py_NewRef(ST(self)->phases[self->phase]))
GET(reason, OR_NONE(task_reason(self)))
GET(itself, Py_NewRef((PyObject *)self))
GET(none, Py_NewRef(Py_None))
GET(no, Py_NewRef(Py_False))

/* The coroutine, made now if the task has not begun; None once the task is DONE. */
static PyObject *
get_work(Task *self, void *Py_UNUSED(closure))
{
    if (task_not_begun(self) && task_begin(ST(self), self) < 0) {
        return NULL;
    }
    return OR_NONE(self->state == LAW_STATE_DONE ? NULL : self->work);
}

static PyObject *
get_spent(Task *self, void *Py_UNUSED(closure))
{
    int64_t none[LAW_COMPONENTS] = {0}, *spent = self->extra ? self->extra->spent : none;
    return Py_BuildValue("(LLLLL)", (long long)self->ops_spent, (long long)spent[1], (long long)spent[2],
                         (long long)spent[3], (long long)spent[4]);
}

/* The nurseries that the task has open, outermost first: a new dict by id, or None if there is none. */
static PyObject *
get_owned(Task *self, void *Py_UNUSED(closure))
{
    if (self->extra == NULL || law_queue_empty(&self->extra->owned)) {
        Py_RETURN_NONE;
    }
    PyObject *dict = PyDict_New();
    const LawQueue *owned = &self->extra->owned;
    for (LawLink *l = law_queue_oldest(owned); dict != NULL && l != NULL; l = law_queue_newer(owned, l)) {
        Nursery *nursery = LAW_RECORD(l, Nursery, owned_link);
        PyObject *id = PyLong_FromUnsignedLongLong(nursery->id);
        if (id == NULL || PyDict_SetItem(dict, id, (PyObject *)nursery) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(id);
    }
    return dict;
}

/* ---- setters, for the Python parts of the law */

static int
no_delete(PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "the fields of a task cannot be deleted");
        return -1;
    }
    return 0;
}

/* Put a reference into a field; None empties it. */
static void
put(PyObject **field, PyObject *value)
{
    PyObject *old = *field;
    *field = value == Py_None ? NULL : Py_NewRef(value);
    Py_XDECREF(old);
}

/* Put the number of a member of an enumeration into a field. ValueError if no member has this number, because getters
 * use the field as an index. */
static void
put_number(uint8_t *field, PyObject *value, int most)
{
    long number = PyLong_AsLong(value);
    if (number >= 0 && number <= most) {
        *field = (uint8_t)number;
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%ld is not a valid state", number);
    }
}

#define SET(name, code)                                                          \
    static int set_##name(Task *self, PyObject *value, void *Py_UNUSED(closure)) \
    {                                                                            \
        if (no_delete(value) < 0) {                                              \
            return -1;                                                           \
        }                                                                        \
        code;                                                                    \
        return PyErr_Occurred() ? -1 : 0;                                        \
    }
#define SET_EXTRA(name, code) SET(name, TaskExtra *extra = task_extra(self); if (extra == NULL) { return -1; } code)

SET(name, Py_XSETREF(self->name, Py_NewRef(value)))
SET(pinned, self->pinned = value == Py_True)
SET(started, self->started = value == Py_True)
SET(effect, self->effect = value == Py_True)
SET(cut, self->cut = value == Py_True)
SET(cancel_pending, self->cancel_pending = value == Py_True)
SET(work, put(&self->work, value))
SET(context, put(&self->context, value); self->borrows = 0)
SET(unpaid_request, put(&self->pending, value))
SET(generation, self->generation = PyLong_AsUnsignedLongLong(value))
SET(since_ns, self->since_ns = PyLong_AsLongLong(value))
SET(turn_left, self->turn_left = (int32_t)PyLong_AsLong(value))
SET(worker, self->worker = (int16_t)PyLong_AsLong(value))
SET(state, put_number(&self->state, value, LAW_STATE_DONE))
SET(wake, put_number(&self->wake, value, LAW_WAKE_DONE))
SET(phase, put_number(&self->phase, value, LAW_PHASE_FINALIZED))
SET(
    inbox, if (value != Py_None || !self->raises) {
        put(&self->answer, value);
        self->raises = 0;
    })
SET(
    error, if (value != Py_None || self->raises) {
        put(&self->answer, value);
        self->raises = value != Py_None;
    })
SET_EXTRA(reason, put(&extra->reason, value))
SET_EXTRA(inner, put((PyObject **)&extra->inner, value))
SET_EXTRA(waiters, put(&extra->waiters, value))
SET_EXTRA(obligations, put(&extra->obligations, value))
SET_EXTRA(requested, extra->requested = (int32_t)PyLong_AsLong(value))
SET_EXTRA(draining, extra->draining = (int32_t)PyLong_AsLong(value))
SET_EXTRA(cleanup_left, extra->cleanup_left = PyLong_AsLongLong(value))
SET_EXTRA(cleanup_left_ns, extra->cleanup_left_ns = PyLong_AsLongLong(value))
SET_EXTRA(
    cleanup_timer, if (arm_promised_timer(self) < 0) { return -1; } put((PyObject **)&extra->cleanup_timer, value))
SET_EXTRA(credit_used, extra->credit_used = PyLong_AsLongLong(value))
SET_EXTRA(credit_of, put((PyObject **)&extra->credit_of, value))
SET_EXTRA(ending, put(&extra->ending, value))
SET_EXTRA(ticket, put(&extra->ticket, value))
SET_EXTRA(named_spent, put(&extra->named_spent, value))
SET_EXTRA(cpu_due, extra->cpu_due = PyLong_AsLongLong(value))
SET_EXTRA(short_of, extra->short_of = (int8_t)PyLong_AsLong(value))

static int
set_capabilities(Task *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (no_delete(value) < 0) {
        return -1;
    }
    SpawnTerms *terms = spawn_terms_new(ST(self), self->terms->pools, value, self->terms->spawn_cap);
    if (terms == NULL) {
        return -1;
    }
    Py_SETREF(self->terms, terms);
    return 0;
}

static PyObject *
task_py_has_children(Task *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(task_has_children(self));
}

static PyObject *
task_repr(Task *self)
{
    static const char *const names[] = {"PENDING", "READY", "RUNNING", "BLOCKED", "EXHAUSTED", "PAUSED", "DONE"};
    return PyUnicode_FromFormat("<task %llu %R %s>", (unsigned long long)self->id, self->name, names[self->state]);
}

#define RO(name) {#name, (getter)get_##name, NULL, NULL, NULL}
#define RW(name) {#name, (getter)get_##name, (setter)set_##name, NULL, NULL}

static PyGetSetDef task_getset[] = {
    RO(id),
    RW(name),
    RO(nursery),
    RW(state),
    RO(outcome),
    RW(wake),
    RW(generation),
    RO(lane),
    RW(worker),
    RW(pinned),
    RW(started),
    RO(wait),
    RW(since_ns),
    RW(inbox),
    RW(error),
    RW(effect),
    RW(waiters),
    RO(owned),
    RW(obligations),
    RW(inner),
    RW(requested),
    RW(draining),
    RW(cancel_pending),
    RW(cleanup_left),
    RW(cleanup_left_ns),
    RW(cleanup_timer),
    RW(cut),
    RW(ending),
    RO(pools),
    RO(purse_of),
    RW(credit_used),
    RW(credit_of),
    RO(spent),
    RW(turn_left),
    RW(named_spent),
    RW(cpu_due),
    RW(short_of),
    RW(capabilities),
    RO(spawn_cap),
    RW(work),
    RW(context),
    RW(unpaid_request),
    RW(phase),
    RW(reason),
    RW(ticket),
    {"task", (getter)get_itself, NULL, NULL, NULL},
    {"parent", (getter)get_none, NULL, NULL, NULL},
    {"timer", (getter)get_none, NULL, NULL, NULL},
    {"body_of", (getter)get_none, NULL, NULL, NULL},
    {"shielded", (getter)get_no, NULL, NULL, NULL},
    {"exiting", (getter)get_no, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef task_methods[] = {
    {"has_children", (PyCFunction)task_py_has_children, METH_NOARGS,
     "Whether a nursery that the task owns has live children."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot task_slots[] = {
    {Py_tp_doc, "One task."},      {Py_tp_traverse, task_traverse},
    {Py_tp_clear, task_clear},     {Py_tp_dealloc, task_dealloc},
    {Py_tp_repr, task_repr},       {Py_tp_getset, task_getset},
    {Py_tp_methods, task_methods}, {0, NULL},
};

PyType_Spec task_spec = {
    .name = "bursar._native.Task",
    .basicsize = sizeof(Task),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = task_slots,
};
