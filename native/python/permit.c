/* Permits, and the part of a gate that is C: after admission/permit.py, and `Flow` and `Turnstile` in admission/gate.py.
 * Attributes for Python, life and death; nothing that decides.
 *
 * A permit has the fields that every task uses which asks. Those that few need (pauses, attempts, timers) are in a dict
 * that is made when one of them is set; until then what Python reads is their default in the class.
 */

#include "gate.h"

/* ---- permits */

Permit *
permit_new(State *st, Turnstile *gate, int64_t priority, PyObject *demand, PyObject *needs)
{
    Permit *self = PyObject_GC_New(Permit, st->Permit);
    if (self == NULL) {
        return NULL;
    }
    memset((char *)self + sizeof(PyObject), 0, sizeof(Permit) - sizeof(PyObject));
    self->gate = (Turnstile *)Py_NewRef((PyObject *)gate);
    self->demand = Py_NewRef(demand);
    self->needs = Py_XNewRef(needs);
    self->priority = priority;
    PyObject_GC_Track((PyObject *)self);
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
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!LO!|Oi:Permit", names, st->Turnstile, &gate, &priority,
                                                   &PyTuple_Type, &demand, &needs, &state)) {
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

static int
permit_traverse(Permit *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->gate);
    Py_VISIT(self->task);
    Py_VISIT(self->demand);
    Py_VISIT(self->needs);
    Py_VISIT(self->successors);
    Py_VISIT(self->reasons);
    Py_VISIT(self->rare);
    return 0;
}

static int
permit_clear(Permit *self)
{
    Py_CLEAR(self->gate);
    Py_CLEAR(self->task);
    Py_CLEAR(self->demand);
    Py_CLEAR(self->needs);
    Py_CLEAR(self->successors);
    Py_CLEAR(self->reasons);
    Py_CLEAR(self->rare);
    return 0;
}

/* Those who follow are held by those whom they follow: the trashcan keeps the end of a chain from being a recursion. */
static void
permit_dealloc(Permit *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, permit_dealloc)
    PyTypeObject *type = Py_TYPE(self);
    permit_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

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
    return st == NULL ? NULL : Py_XNewRef(self->needs != NULL ? self->needs : law_told(st->law, "NOTHING"));
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

static PyObject *
get_successors(Permit *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->successors != NULL ? self->successors : Py_None);
}

static int
set_successors(Permit *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value != NULL && value != Py_None && !PyList_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "those who follow are a list");
        return -1;
    }
    Py_XSETREF(self->successors, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyGetSetDef permit_getset[] = {
    {"state", (getter)get_state, (setter)set_state, NULL, NULL},
    {"needs", (getter)get_needs, (setter)set_needs, NULL, NULL},
    {"demand", (getter)get_demand, (setter)set_demand, NULL, NULL},
    {"successors", (getter)get_successors, (setter)set_successors, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef permit_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Permit, rare), READONLY, NULL},
    {"gate", T_OBJECT, offsetof(Permit, gate), READONLY, NULL},
    {"task", T_OBJECT, offsetof(Permit, task), 0, NULL},
    {"reasons", T_OBJECT, offsetof(Permit, reasons), 0, NULL},
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

static PyType_Slot permit_slots[] = {
    {Py_tp_doc, "What admission knows of one task."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, permit_init},
    {Py_tp_traverse, permit_traverse},
    {Py_tp_clear, permit_clear},
    {Py_tp_dealloc, permit_dealloc},
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

/* ---- Flow */

static PyMemberDef flow_members[] = {
    {"entered", T_LONGLONG, offsetof(Flow, entered), 0, NULL},
    {"admitted", T_LONGLONG, offsetof(Flow, admitted), 0, NULL},
    {"passed_over", T_LONGLONG, offsetof(Flow, passed_over), 0, NULL},
    {"wait_ns", T_LONGLONG, offsetof(Flow, wait_ns), 0, NULL},
    {"wait_max_ns", T_LONGLONG, offsetof(Flow, wait_max_ns), 0, NULL},
    {"starved", T_LONGLONG, offsetof(Flow, starved), 0, NULL},
    {"starved_ns", T_LONGLONG, offsetof(Flow, starved_ns), 0, NULL},
    {"starved_max_ns", T_LONGLONG, offsetof(Flow, starved_max_ns), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot flow_slots[] = {
    {Py_tp_doc, "How many asked, how many were let in, and how long that took."},
    {Py_tp_members, flow_members},
    {0, NULL},
};

PyType_Spec flow_spec = {
    .name = "bursar._native.Flow",
    .basicsize = sizeof(Flow),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = flow_slots,
};

/* ---- Turnstile */

/* Read one attribute of the resources, which must be of this type. 0, or -1 with an exception set. */
static int
take_over(PyObject *resources, const char *name, PyTypeObject *type, PyObject **into)
{
    PyObject *found = PyObject_GetAttrString(resources, name);
    if (found != NULL && !Py_IS_TYPE(found, type)) {
        PyErr_Format(PyExc_TypeError, "%s of the resources is not a %s", name, type->tp_name);
        Py_CLEAR(found);
    }
    Py_XSETREF(*into, found);
    return found == NULL ? -1 : 0;
}

/* Turnstile(totals, queues, resources, reserve_after_ns, drops) */
static int
turnstile_init(Turnstile *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    State *st = state_of(Py_TYPE(self));
    PyObject *totals, *queues, *resources;
    long long reserve_after_ns;
    int drops;
    if (st == NULL || !PyArg_ParseTuple(args, "O!O!OLp:Turnstile", st->Flow, &totals, st->Rows, &queues, &resources,
                                        &reserve_after_ns, &drops)) {
        return -1;
    }
    self->reserve_after_ns = reserve_after_ns;
    self->drops = (char)drops;
    if (take_over(resources, "limits", &PyTuple_Type, &self->limits) < 0
        || take_over(resources, "taken", &PyList_Type, &self->taken) < 0
        || take_over(resources, "peak", &PyList_Type, &self->peak) < 0
        || take_over(resources, "kept", &PyList_Type, &self->kept) < 0
        || take_over(resources, "least", &PyTuple_Type, &self->least) < 0
        || take_over(resources, "thread_demand", &PyTuple_Type, &self->thread) < 0) {
        return -1;
    }
    if (PyTuple_GET_SIZE(self->thread) != 2 || !PyTuple_CheckExact(PyTuple_GET_ITEM(self->thread, 0))) {
        PyErr_SetString(PyExc_TypeError, "thread_demand of the resources is not a demand and needs");
        return -1;
    }
    Py_XSETREF(self->totals, (Flow *)Py_NewRef(totals));
    Py_XSETREF(self->queues, (Rows *)Py_NewRef(queues));
    Py_XSETREF(self->resources, Py_NewRef(resources));
    Py_XSETREF(self->returning, PyDict_New());
    Py_XSETREF(self->held, self->returning == NULL ? NULL : PyDict_New());
    return self->held == NULL ? -1 : 0;
}

static int
turnstile_traverse(Turnstile *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->totals);
    Py_VISIT(self->held);
    Py_VISIT(self->returning);
    Py_VISIT(self->queues);
    Py_VISIT(self->resources);
    Py_VISIT(self->limits);
    Py_VISIT(self->taken);
    Py_VISIT(self->peak);
    Py_VISIT(self->kept);
    Py_VISIT(self->least);
    Py_VISIT(self->thread);
    Py_VISIT(self->reserved);
    return 0;
}

static int
turnstile_clear(Turnstile *self)
{
    Py_CLEAR(self->held); /* first: without it nothing here is used any more (`as_turnstile`) */
    Py_CLEAR(self->totals);
    Py_CLEAR(self->returning);
    Py_CLEAR(self->queues);
    Py_CLEAR(self->resources);
    Py_CLEAR(self->limits);
    Py_CLEAR(self->taken);
    Py_CLEAR(self->peak);
    Py_CLEAR(self->kept);
    Py_CLEAR(self->least);
    Py_CLEAR(self->thread);
    Py_CLEAR(self->reserved);
    return 0;
}

static void
turnstile_dealloc(Turnstile *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    turnstile_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef turnstile_members[] = {
    {"totals", T_OBJECT, offsetof(Turnstile, totals), READONLY, NULL},
    {"held", T_OBJECT, offsetof(Turnstile, held), READONLY, NULL},
    {"returning", T_OBJECT, offsetof(Turnstile, returning), READONLY, NULL},
    {"queues", T_OBJECT, offsetof(Turnstile, queues), READONLY, NULL},
    {"resources", T_OBJECT, offsetof(Turnstile, resources), READONLY, NULL},
    {"reserved", T_OBJECT, offsetof(Turnstile, reserved), 0, NULL},
    {"waiting", T_LONGLONG, offsetof(Turnstile, waiting), 0, NULL},
    {"reserve_after_ns", T_LONGLONG, offsetof(Turnstile, reserve_after_ns), READONLY, NULL},
    {"settled_ns", T_LONGLONG, offsetof(Turnstile, settled_ns), 0, NULL},
    {"drops", T_BOOL, offsetof(Turnstile, drops), READONLY, NULL},
    {"settling", T_BOOL, offsetof(Turnstile, settling), 0, NULL},
    {"again", T_BOOL, offsetof(Turnstile, again), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot turnstile_slots[] = {
    {Py_tp_doc, "What every task changes that asks, is let in and ends."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, turnstile_init},
    {Py_tp_traverse, turnstile_traverse},
    {Py_tp_clear, turnstile_clear},
    {Py_tp_dealloc, turnstile_dealloc},
    {Py_tp_members, turnstile_members},
    {0, NULL},
};

PyType_Spec turnstile_spec = {
    .name = "bursar._native.Turnstile",
    .basicsize = sizeof(Turnstile),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = turnstile_slots,
};
