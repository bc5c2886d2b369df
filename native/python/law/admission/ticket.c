/* Permits: after admission/permit.py. Attributes for Python, life and death; nothing that decides.
 *
 * A permit has the fields that every task uses which asks. Those that few need (pauses, attempts, timers) are in a dict
 * that is made when one of them is set; until then what Python reads is their default in the class. What a task was short
 * of, which nearly everybody is who queues, is kept in numbers, and becomes a note when somebody asks.
 *
 *   TICKET-1  a permit that was made here is not tracked by the collector while its task holds it: the task shows what
 *       it refers to, as its nursery does for the task (RECORD-4), so a crowd that waits costs collections nothing. One
 *       that outlives its task is tracked from then on
 *   TICKET-2  a permit that is over has let go of its gate, its task and those who followed. If it has no notes but of
 *       what it was short of, it is *settled*: nothing that it holds leads back to it
 *
 * Rejected: lists of those who follow. Each is two objects more that the collector goes through; an array is none.
 */

#include "python/law/admission/ticket.h"
#include "python/law/admission/gate_record.h"
#include "python/module/seam.h"

/* ---- life */

Permit *
permit_new(State *st, Turnstile *gate, int64_t priority, PyObject *demand, PyObject *needs)
{
    Permit *self = (Permit *)free_make(&st->free_permits, st->Permit);
    if (self == NULL) {
        return NULL;
    }
    self->gate = (Turnstile *)Py_NewRef((PyObject *)gate);
    self->demand = Py_NewRef(demand);
    self->needs = Py_XNewRef(needs);
    self->priority = priority;
    return self; /* TICKET-1 */
}

static PyObject *
permit_make(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    State *st = state_of(type);
    PyObject *self = st == NULL ? NULL : free_make(&st->free_permits, type);
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

/* Permit(gate, priority, demand, needs=NOTHING, state=PermitState.WAITS) */
static int
permit_init(Permit *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gate", "priority", "demand", "needs", "state", NULL};
    State *st = state_of(Py_TYPE(self));
    PyObject *gate, *demand, *needs = NULL;
    long long priority;
    int state = LAW_PERMIT_WAITS;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!LO!|Oi:Permit", names, st->Turnstile, &gate,
                                                   &priority, &PyTuple_Type, &demand, &needs, &state)) {
        return -1;
    }
    if (state < 0 || state >= LAW_PERMITS) {
        PyErr_SetString(PyExc_ValueError, "there is no such state of a permit");
        return -1;
    }
    Py_XSETREF(self->gate, (Turnstile *)Py_NewRef(gate));
    Py_XSETREF(self->demand, Py_NewRef(demand));
    Py_XSETREF(self->needs, Py_XNewRef(needs));
    self->priority = priority;
    self->state = (uint8_t)state;
    return 0;
}

/* All that it refers to, for the collector: for the permit itself, or for the task that shows it (TICKET-1). */
static int
visit_fields(Permit *self, visitproc visit, void *arg)
{
    Py_VISIT(self->gate);
    Py_VISIT(self->task);
    Py_VISIT(self->demand);
    Py_VISIT(self->needs);
    Py_VISIT(self->reasons);
    Py_VISIT(self->rare);
    if (self->lack != NULL) {
        Py_VISIT(self->lack->resources);
    }
    for (int32_t i = 0; i < self->followers.n; i++) {
        Py_VISIT((PyObject *)self->followers.those[i]);
    }
    return 0;
}

static int
permit_traverse(Permit *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return visit_fields(self, visit, arg);
}

static void permit_dealloc(Permit *self);

/* Whether it is a permit, and the collector does not track it. */
static bool
is_hidden(PyObject *permit)
{
    return Py_TYPE(permit)->tp_dealloc == (destructor)permit_dealloc && !PyObject_GC_IsTracked(permit);
}

int
permit_show(PyObject *permit, visitproc visit, void *arg)
{
    if (permit != NULL && is_hidden(permit)) {
        return visit_fields((Permit *)permit, visit, arg);
    }
    Py_VISIT(permit);
    return 0;
}

void
permit_leave(PyObject *permit)
{
    if (permit != NULL && Py_REFCNT(permit) > 1 && is_hidden(permit)) {
        PyObject_GC_Track(permit); /* TICKET-1 */
    }
    Py_XDECREF(permit);
}

bool
permit_settled(PyObject *permit)
{
    const Permit *self = (Permit *)permit;
    return is_hidden(permit) && self->state == LAW_PERMIT_OVER && self->gate == NULL && self->rare == NULL &&
           self->reasons == NULL && self->task == NULL;
}

void
followers_drop(Followers *followers)
{
    Followers gone = *followers;
    *followers = (Followers){NULL, 0};
    for (int32_t i = 0; i < gone.n; i++) {
        Py_DECREF((PyObject *)gone.those[i]);
    }
    PyMem_Free(gone.those);
}

int
followers_add(Followers *followers, Permit *permit)
{
    int32_t n = followers->n;
    if ((n & (n - 1)) == 0) { /* full: there is room for the next power of two */
        size_t room = n == 0 ? 1 : 2 * (size_t)n;
        Permit **those = room > INT32_MAX ? NULL : PyMem_Realloc(followers->those, sizeof(Permit *) * room);
        if (those == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        followers->those = those;
    }
    followers->those[followers->n++] = (Permit *)Py_NewRef((PyObject *)permit);
    return 0;
}

static void
drop_lack(Permit *self)
{
    Lack *lack = self->lack;
    self->lack = NULL;
    if (lack != NULL) {
        Py_DECREF(lack->resources);
        Py_XDECREF(lack->kept_for);
        PyMem_Free(lack);
    }
}

static int
permit_clear(Permit *self)
{
    Py_CLEAR(self->gate);
    Py_CLEAR(self->task);
    Py_CLEAR(self->demand);
    Py_CLEAR(self->needs);
    Py_CLEAR(self->reasons);
    Py_CLEAR(self->rare);
    drop_lack(self);
    followers_drop(&self->followers);
    return 0;
}

/* Those who follow are held by those whom they follow: the trashcan keeps the end of a chain from being a recursion. */
static void
permit_dealloc(Permit *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, permit_dealloc) State *st = state_left(Py_TYPE(self));
    permit_clear(self);
    free_drop(st ? &st->free_permits : NULL, (PyObject *)self);
    Py_TRASHCAN_END
}

/* ---- what it was short of */

int
permit_lacks(Permit *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for)
{
    Py_ssize_t n = PyList_GET_SIZE(taken);
    Lack *lack = PyMem_Malloc(sizeof(Lack) + sizeof(int64_t) * (size_t)n);
    if (lack == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        lack->taken[i] = PyLong_AsLongLong(PyList_GET_ITEM(taken, i));
    }
    if (PyErr_Occurred()) {
        PyMem_Free(lack);
        return -1;
    }
    lack->since_ns = now_ns;
    lack->n = n;
    lack->resources = Py_NewRef(resources);
    lack->kept_for = Py_XNewRef(kept_for);
    self->lack = lack;
    return 0;
}

/* The note that the law in Python would have written: Short(since_ns, resources, demand, taken, kept_for). */
static PyObject *
told(State *st, const Permit *self)
{
    const Lack *lack = self->lack;
    PyObject *taken = PyTuple_New(lack->n);
    for (Py_ssize_t i = 0; taken != NULL && i < lack->n; i++) {
        PyObject *amount = PyLong_FromLongLong(lack->taken[i]);
        if (amount == NULL) {
            Py_CLEAR(taken);
            break;
        }
        PyTuple_SET_ITEM(taken, i, amount);
    }
    PyObject *kept_for = taken == NULL            ? NULL
                         : lack->kept_for != NULL ? Py_NewRef(lack->kept_for)
                                                  : PyUnicode_New(0, 0);
    PyObject *fields = kept_for == NULL ? NULL
                                        : Py_BuildValue("((LOOOO))", (long long)lack->since_ns, lack->resources,
                                                        self->demand, taken, kept_for);
    PyObject *note = fields == NULL ? NULL : PyTuple_Type.tp_new((PyTypeObject *)st->Short, fields, NULL);
    Py_XDECREF(taken);
    Py_XDECREF(kept_for);
    Py_XDECREF(fields);
    return note;
}

/* ---- for Python */

static PyObject *
get_state(Permit *self, void *Py_UNUSED(closure))
{
    State *st = state_of(Py_TYPE(self));
    return st == NULL ? NULL : Py_NewRef(st->permit_states[self->state]);
}

/* Python has checked it against the table (`move`). */
static int
set_state(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    long state = value == NULL ? -1 : PyLong_AsLong(value);
    if (state < 0 || state >= LAW_PERMITS) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "there is no such state of a permit");
        }
        return -1;
    }
    self->state = (uint8_t)state;
    return 0;
}

static PyObject *
get_needs(Permit *self, void *Py_UNUSED(closure))
{
    State *st = state_of(Py_TYPE(self));
    return st == NULL ? NULL : Py_XNewRef(self->needs != NULL ? self->needs : py_require(st, PY_NOTHING));
}

static int
set_needs(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->needs, Py_XNewRef(value));
    return 0;
}

static int
set_demand(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyTuple_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "a demand is a tuple");
        return -1;
    }
    Py_XSETREF(self->demand, Py_NewRef(value));
    return 0;
}

static PyObject *
get_demand(Permit *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->demand != NULL ? self->demand : Py_None);
}

/* A list that is made for whoever asks. */
static PyObject *
get_successors(Permit *self, void *Py_UNUSED(closure))
{
    if (self->followers.n == 0) {
        Py_RETURN_NONE;
    }
    PyObject *list = PyList_New(self->followers.n);
    for (int32_t i = 0; list != NULL && i < self->followers.n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef((PyObject *)self->followers.those[i]));
    }
    return list;
}

static int
set_successors(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    State *st = state_of(Py_TYPE(self));
    Followers followers = {NULL, 0};
    Py_ssize_t n = value == NULL || value == Py_None ? 0 : PyList_CheckExact(value) ? PyList_GET_SIZE(value) : -1;
    int failed = st == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; failed == 0 && i < n; i++) {
        PyObject *one = PyList_GET_ITEM(value, i);
        n = Py_IS_TYPE(one, st->Permit) ? n : -1;
        failed = n < 0 ? 0 : followers_add(&followers, (Permit *)one);
    }
    if (n < 0) {
        PyErr_SetString(PyExc_TypeError, "those who follow are a list of permits");
        failed = -1;
    }
    Followers before = self->followers;
    if (failed == 0) {
        self->followers = followers;
        followers = before;
    }
    followers_drop(&followers);
    return failed;
}

static PyObject *
permit_precede(Permit *self, PyObject *other)
{
    State *st = state_of(Py_TYPE(self));
    if (st == NULL || !Py_IS_TYPE(other, st->Permit)) {
        PyErr_SetString(PyExc_TypeError, "a permit precedes permits");
        return NULL;
    }
    return followers_add(&self->followers, (Permit *)other) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
get_reasons(Permit *self, void *Py_UNUSED(closure))
{
    State *st = self->lack == NULL ? NULL : state_of(Py_TYPE(self));
    if (st != NULL) { /* it was its first note */
        PyObject *note = told(st, self), *list = note == NULL ? NULL : PyList_New(1);
        if (list == NULL) {
            Py_XDECREF(note);
            return NULL;
        }
        PyList_SET_ITEM(list, 0, note);
        Py_XSETREF(self->reasons, list);
        drop_lack(self);
        if (self->state == LAW_PERMIT_OVER && is_hidden((PyObject *)self)) {
            PyObject_GC_Track((PyObject *)self); /* it is not settled any more (TICKET-2) */
        }
    }
    return Py_NewRef(self->reasons != NULL ? self->reasons : Py_None);
}

static int
set_reasons(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    drop_lack(self);
    Py_XSETREF(self->reasons, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyObject *
get_gate(Permit *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->gate != NULL ? (PyObject *)self->gate : Py_None);
}

/* None: it is over, and lets go of its gate. There is no other. */
static int
set_gate(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value != Py_None) {
        PyErr_SetString(PyExc_AttributeError, "a permit does not change its gate");
        return -1;
    }
    Py_CLEAR(self->gate);
    return 0;
}

static PyGetSetDef permit_getset[] = {
    {"state", (getter)get_state, (setter)set_state, NULL, NULL},
    {"needs", (getter)get_needs, (setter)set_needs, NULL, NULL},
    {"demand", (getter)get_demand, (setter)set_demand, NULL, NULL},
    {"successors", (getter)get_successors, (setter)set_successors, NULL, NULL},
    {"reasons", (getter)get_reasons, (setter)set_reasons, NULL, NULL},
    {"gate", (getter)get_gate, (setter)set_gate, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef permit_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Permit, rare), READONLY, NULL},
    {"task", T_OBJECT, offsetof(Permit, task), 0, NULL},
    {"priority", T_LONGLONG, offsetof(Permit, priority), 0, NULL},
    {"entered_ns", T_LONGLONG, offsetof(Permit, entered_ns), 0, NULL},
    {"ready_ns", T_LONGLONG, offsetof(Permit, ready_ns), 0, NULL},
    {"waited_ns", T_LONGLONG, offsetof(Permit, waited_ns), 0, NULL},
    {"starved_ns", T_LONGLONG, offsetof(Permit, starved_ns), 0, NULL},
    {"place", T_LONGLONG, offsetof(Permit, place), 0, NULL},
    {"followed", T_INT, offsetof(Permit, followed), 0, NULL},
    {"unmet", T_INT, offsetof(Permit, unmet), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef permit_methods[] = {
    {"precede", (PyCFunction)permit_precede, METH_O, "That one follows it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot permit_slots[] = {
    {Py_tp_doc, "What admission knows of one task."},
    {Py_tp_new, permit_make},
    {Py_tp_init, permit_init},
    {Py_tp_traverse, permit_traverse},
    {Py_tp_clear, permit_clear},
    {Py_tp_dealloc, permit_dealloc},
    {Py_tp_methods, permit_methods},
    {Py_tp_getset, permit_getset},
    {Py_tp_members, permit_members},
    {0, NULL},
};

PyType_Spec permit_spec = {
    .name = "bursar._native.Permit",
    .basicsize = sizeof(Permit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = permit_slots,
};
