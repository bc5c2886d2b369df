/* The part of a gate that is C: after `Flow` and `Turnstile` in admission/gate.py. Attributes for Python, life and death;
 * nothing that decides.
 */

#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"

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
    if (take_over(resources, "limits", &PyTuple_Type, &self->limits) < 0 ||
        take_over(resources, "taken", &PyList_Type, &self->taken) < 0 ||
        take_over(resources, "peak", &PyList_Type, &self->peak) < 0 ||
        take_over(resources, "kept", &PyList_Type, &self->kept) < 0 ||
        take_over(resources, "least", &PyTuple_Type, &self->least) < 0 ||
        take_over(resources, "thread_demand", &PyTuple_Type, &self->thread) < 0) {
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
