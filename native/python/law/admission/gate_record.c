/* The Python types `GateTotalsCore` and `GateCore`, after law/admission/gate.py: how they are made and freed, and their
 * attributes. Nothing here decides.
 */

#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"

/* ---- GateTotalsCore */

static PyMemberDef gate_totals_members[] = {
    {"entered", T_LONGLONG, offsetof(GateTotalsCore, entered), 0, NULL},
    {"admitted", T_LONGLONG, offsetof(GateTotalsCore, admitted), 0, NULL},
    {"passed_over", T_LONGLONG, offsetof(GateTotalsCore, passed_over), 0, NULL},
    {"wait_ns", T_LONGLONG, offsetof(GateTotalsCore, wait_ns), 0, NULL},
    {"wait_max_ns", T_LONGLONG, offsetof(GateTotalsCore, wait_max_ns), 0, NULL},
    {"starved", T_LONGLONG, offsetof(GateTotalsCore, starved), 0, NULL},
    {"starved_ns", T_LONGLONG, offsetof(GateTotalsCore, starved_ns), 0, NULL},
    {"starved_max_ns", T_LONGLONG, offsetof(GateTotalsCore, starved_max_ns), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot gate_totals_slots[] = {
    {Py_tp_doc, "How many tasks asked, how many were admitted, and how long they waited."},
    {Py_tp_members, gate_totals_members},
    {0, NULL},
};

PyType_Spec gate_totals_spec = {
    .name = "bursar._native.GateTotalsCore",
    .basicsize = sizeof(GateTotalsCore),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = gate_totals_slots,
};

/* ---- GateCore */

/* Read an attribute of the resources into a field. It must be of this type. 0, or -1 with an exception set. */
static int
read_attribute(PyObject *resources, const char *name, PyTypeObject *type, PyObject **into)
{
    PyObject *found = PyObject_GetAttrString(resources, name);
    if (found != NULL && !Py_IS_TYPE(found, type)) {
        PyErr_Format(PyExc_TypeError, "%s of the resources is not a %s", name, type->tp_name);
        Py_CLEAR(found);
    }
    Py_XSETREF(*into, found);
    return found == NULL ? -1 : 0;
}

/* GateCore(totals, queues, resources, reserve_after_ns, drops) */
static int
gate_core_init(GateCore *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *totals, *queues, *resources;
    long long reserve_after_ns;
    int drops;
    if (st == NULL || !PyArg_ParseTuple(args, "O!O!OLp:GateCore", st->GateTotalsCore, &totals, st->QueuesCore, &queues,
                                        &resources, &reserve_after_ns, &drops)) {
        return -1;
    }
    self->reserve_after_ns = reserve_after_ns;
    self->drops = (char)drops;
    if (read_attribute(resources, "limits", &PyTuple_Type, &self->limits) < 0 ||
        read_attribute(resources, "taken", &PyList_Type, &self->taken) < 0 ||
        read_attribute(resources, "peak", &PyList_Type, &self->peak) < 0 ||
        read_attribute(resources, "kept", &PyList_Type, &self->kept) < 0 ||
        read_attribute(resources, "least", &PyTuple_Type, &self->least) < 0 ||
        read_attribute(resources, "thread_demand", &PyTuple_Type, &self->thread) < 0) {
        return -1;
    }
    if (PyTuple_GET_SIZE(self->thread) != 2 || !PyTuple_CheckExact(PyTuple_GET_ITEM(self->thread, 0))) {
        PyErr_SetString(PyExc_TypeError, "thread_demand of the resources is not a pair (demand, needs)");
        return -1;
    }
    Py_XSETREF(self->totals, (GateTotalsCore *)Py_NewRef(totals));
    Py_XSETREF(self->queues, (QueuesCore *)Py_NewRef(queues));
    Py_XSETREF(self->resources, Py_NewRef(resources));
    Py_XSETREF(self->returning, PyDict_New());
    Py_XSETREF(self->held, self->returning == NULL ? NULL : PyDict_New());
    return self->held == NULL ? -1 : 0;
}

static int
gate_core_traverse(GateCore *self, visitproc visit, void *arg)
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
gate_core_clear(GateCore *self)
{
    Py_CLEAR(self->held); /* first: without it C no longer uses the gate (`as_gate_core`) */
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
gate_core_dealloc(GateCore *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    gate_core_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef gate_core_members[] = {
    {"totals", T_OBJECT, offsetof(GateCore, totals), READONLY, NULL},
    {"held", T_OBJECT, offsetof(GateCore, held), READONLY, NULL},
    {"returning", T_OBJECT, offsetof(GateCore, returning), READONLY, NULL},
    {"queues", T_OBJECT, offsetof(GateCore, queues), READONLY, NULL},
    {"resources", T_OBJECT, offsetof(GateCore, resources), READONLY, NULL},
    {"reserved", T_OBJECT, offsetof(GateCore, reserved), 0, NULL},
    {"waiting", T_LONGLONG, offsetof(GateCore, waiting), 0, NULL},
    {"reserve_after_ns", T_LONGLONG, offsetof(GateCore, reserve_after_ns), READONLY, NULL},
    {"last_pass_ns", T_LONGLONG, offsetof(GateCore, last_pass_ns), 0, NULL},
    {"drops", T_BOOL, offsetof(GateCore, drops), READONLY, NULL},
    {"admitting", T_BOOL, offsetof(GateCore, admitting), 0, NULL},
    {"again", T_BOOL, offsetof(GateCore, again), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot gate_core_slots[] = {
    {Py_tp_doc, "The part of a gate that changes when any task asks, is admitted or ends."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, gate_core_init},
    {Py_tp_traverse, gate_core_traverse},
    {Py_tp_clear, gate_core_clear},
    {Py_tp_dealloc, gate_core_dealloc},
    {Py_tp_members, gate_core_members},
    {0, NULL},
};

PyType_Spec gate_core_spec = {
    .name = "bursar._native.GateCore",
    .basicsize = sizeof(GateCore),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = gate_core_slots,
};
