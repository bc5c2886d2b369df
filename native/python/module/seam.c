/* The seam between C and Python: what C knows of the law in Python, and how C calls it.
 *
 * C imports nothing. src/bursar/kernel.py hands a dict of its classes and functions to `adopt`, which checks that both
 * sides agree on enumerations and dataclasses and keeps what C uses often in the module's state. All else is looked up
 * in the dict by name when it is called (`law_call`).
 */

#include "python/module/seam.h"

#include <structmember.h>

#include "law/admission/ticket.h"

/* ---- calling the Python side */

PyObject *
law_find(PyObject *told, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(told, key);
    Py_XDECREF(key);
    return found;
}

PyObject *
law_told(PyObject *law, const char *name)
{
    PyObject *found = law_find(law, name);
    if (found == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_SystemError, "bursar._native was not told of %s", name);
    }
    return found;
}

PyObject *
law_call(State *st, const char *name, PyObject *const *args, Py_ssize_t n)
{
    PyObject *function = law_told(st->law, name);
    return function == NULL ? NULL : PyObject_Vectorcall(function, args, (size_t)n, NULL);
}

/* ---- frozen dataclasses */

static PyObject **
slot_at(PyObject *thing, Py_ssize_t slot)
{
    return (PyObject **)(void *)((char *)thing + slot);
}

PyObject *
frozen_new(PyObject *kind, const Py_ssize_t *slots, PyObject *const *values, int n)
{
    PyObject *made = PyType_GenericNew((PyTypeObject *)kind, NULL, NULL);
    for (int i = 0; made != NULL && i < n; i++) {
        *slot_at(made, slots[i]) = Py_NewRef(values[i]); /* past the __setattr__ that says no */
    }
    return made;
}

PyObject *
frozen_field(PyObject *thing, Py_ssize_t slot)
{
    PyObject *value = *slot_at(thing, slot);
    if (value == NULL) { /* made without its __init__ */
        PyErr_Format(PyExc_AttributeError, "a field of %R is not set", (PyObject *)Py_TYPE(thing));
    }
    return Py_XNewRef(value);
}

/* ---- adopting the law */

/* Where a class with slots keeps one of them; -1 with an exception set if it does not. */
static Py_ssize_t
slot_of(PyObject *kind, PyObject *name)
{
    Py_ssize_t slot = -1;
    PyObject *member = PyObject_GetAttr(kind, name);
    if (member != NULL && Py_IS_TYPE(member, &PyMemberDescr_Type)) {
        const PyMemberDef *def = ((PyMemberDescrObject *)member)->d_member;
        slot = def->type == T_OBJECT_EX ? def->offset : -1;
    }
    Py_XDECREF(member);
    if (slot < 0) {
        PyErr_Format(PyExc_SystemError, "bursar._native does not find the slot %R of %R", name, kind);
    }
    return slot;
}

/* The slots of the fields of a dataclass, which must be as many as C fills. */
static int
adopt_fields(PyObject *kind, Py_ssize_t *into, Py_ssize_t n)
{
    PyObject *names = PyObject_GetAttrString(kind, "__match_args__");
    if (names == NULL || !PyTuple_Check(names) || PyTuple_GET_SIZE(names) != n) {
        PyErr_Format(PyExc_SystemError, "bursar._native and the law do not agree on %R", kind);
        Py_XDECREF(names);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if ((into[i] = slot_of(kind, PyTuple_GET_ITEM(names, i))) < 0) {
            Py_DECREF(names);
            return -1;
        }
    }
    Py_DECREF(names);
    return 0;
}

/* The members of an enumeration of the Python side, in the order of their definition. */
static int
adopt_members(PyObject *law, const char *name, PyObject **into, Py_ssize_t n)
{
    PyObject *kind = law_told(law, name);
    PyObject *all = kind == NULL ? NULL : PySequence_List(kind);
    if (all == NULL) {
        return -1;
    }
    if (PyList_GET_SIZE(all) != n) {
        PyErr_Format(PyExc_SystemError, "bursar._native and the law do not agree on %s", name);
        Py_DECREF(all);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_XSETREF(into[i], Py_NewRef(PyList_GET_ITEM(all, i)));
    }
    Py_DECREF(all);
    return 0;
}

static int
adopt_one(PyObject *law, const char *name, PyObject **into)
{
    PyObject *found = law_told(law, name);
    if (found == NULL) {
        return -1;
    }
    Py_XSETREF(*into, Py_NewRef(found));
    return 0;
}

const char adopt_doc[] =
    PyDoc_STR("adopt(law)\n--\n\nTake over what the Python side calls things: a dict of its classes and functions.");

PyObject *
adopt(PyObject *module, PyObject *law)
{
    State *st = PyModule_GetState(module);
    PyObject *bills[LAW_BILLS] = {NULL};
    if (!PyDict_Check(law)) {
        PyErr_SetString(PyExc_TypeError, "adopt() takes a dict");
        return NULL;
    }
    Py_XSETREF(st->law, Py_NewRef(law));
    if (adopt_members(law, "State", st->states, LAW_STATES) < 0 ||
        adopt_members(law, "OutcomeKind", st->kinds, LAW_OUTCOMES) < 0 ||
        adopt_members(law, "WakeState", st->wakes, LAW_WAKES) < 0 ||
        adopt_members(law, "Notice", st->notices, LAW_NOTICES) < 0 ||
        adopt_members(law, "Lane", st->lanes, LAW_LANES) < 0 ||
        adopt_members(law, "CancelPhase", st->phases, LAW_PHASES) < 0 ||
        adopt_members(law, "NurseryState", st->nursery_states, LAW_NURSERY_STATES) < 0 ||
        adopt_members(law, "TimerKind", st->timer_kinds, LAW_TIMER_KINDS) < 0 ||
        adopt_members(law, "CancelKind", st->cancel_kinds, LAW_CANCEL_KINDS) < 0 ||
        adopt_members(law, "Bill", bills, LAW_BILLS) < 0 || adopt_one(law, "Outcome", &st->Outcome) < 0 ||
        adopt_one(law, "CancelReason", &st->CancelReason) < 0 || adopt_one(law, "Cancelled", &st->Cancelled) < 0 ||
        adopt_one(law, "CapSpawn", &st->CapSpawn) < 0 || adopt_one(law, "CapTimer", &st->CapTimer) < 0 ||
        adopt_one(law, "CapBudget", &st->CapBudget) < 0 ||
        adopt_one(law, "CapabilityDenied", &st->CapabilityDenied) < 0 || adopt_one(law, "Drain", &st->Drain) < 0 ||
        adopt_one(law, "UNSTATED", &st->UNSTATED) < 0 || adopt_one(law, "SUSPENDED", &st->SUSPENDED) < 0) {
        return NULL;
    }
    if (adopt_fields(st->CancelReason, st->reason_slots, 3) < 0 ||
        adopt_fields(st->Outcome, st->outcome_slots, 4) < 0) {
        return NULL;
    }
    Py_XSETREF(st->bill_paid, bills[LAW_BILL_PAID]);
    Py_XSETREF(st->bill_suspended, bills[LAW_BILL_SUSPENDED]);
    Py_XSETREF(st->bill_cut, bills[LAW_BILL_CUT]);
    PyObject *op = law_told(law, "OP");
    if (op == NULL || PyObject_SetAttrString((PyObject *)st->Request, "cost", op) < 0 ||
        PyObject_SetAttrString((PyObject *)st->Request, "timed", Py_False) < 0) {
        return NULL;
    }
    /* told later, by a module that is built on the kernel */
    bool permits = law_find(law, "PermitState") != NULL;
    if ((permits && (adopt_members(law, "PermitState", st->permit_states, LAW_PERMITS) < 0 ||
                     adopt_one(law, "Short", &st->Short) < 0)) ||
        PyErr_Occurred()) {
        return NULL;
    }
    bool modules = law_find(law, "own_modules") != NULL;
    if ((modules && adopt_one(law, "own_modules", &st->own_modules) < 0) || PyErr_Occurred()) {
        return NULL;
    }
    st->adopted = true;
    Py_RETURN_NONE;
}
