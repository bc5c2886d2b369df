/* The seam between C and Python: what C knows of the law in Python, and how C calls it.
 *
 * C imports nothing. Python hands its classes and functions over by name: the law at once (`adopt`), and other packages when
 * they are imported (`expose`). names_from_python.h has the lists of names; the module's state has a place for each name.
 *
 * Rejected: a dict in which C looks up a name at each call. A misspelt name would be found only when the call happens, and
 * each call would pay for a look-up.
 *
 *   SEAM-1  every name that Python hands over is in a list, and after `adopt` every name of the law has an object
 */

#include "python/module/seam.h"
#include "python/law/admission/gate.h"
#include "python/law/records.h"

#include <string.h>

static const char *const NAMES[PY_OBJECTS] = {
#define X(name) #name,
    SEAM_OBJECTS(X)
#undef X
};

/* The enumerations: the name of each, where its members go, and how many there are. */
static const struct {
    const char *name;
    size_t members;
    Py_ssize_t n;
} ENUMS[] = {
#define X(kind, members, n) {#kind, offsetof(ModuleState, members), n},
    SEAM_ENUMS(X)
#undef X
};

static const char NOT_EXPOSED[] = "bursar._native needs %s, which no module has exposed";

static PyObject **
members_at(ModuleState *st, size_t which)
{
    return (PyObject **)(void *)((char *)st + ENUMS[which].members);
}

/* ---- calling the Python side */

PyObject *
py_require(const ModuleState *st, PyName name)
{
    if (st->py[name] == NULL) {
        PyErr_Format(PyExc_SystemError, NOT_EXPOSED, NAMES[name]);
    }
    return st->py[name];
}

PyObject *
py_call(const ModuleState *st, PyName name, PyObject *const *args, Py_ssize_t n)
{
    PyObject *function = py_require(st, name);
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
        *slot_at(made, slots[i]) = Py_NewRef(values[i]); /* not through __setattr__, which raises */
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

/* The offset of a slot in the objects of a class; -1 with an exception set: the class has no such slot. */
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

/* Find the slots of all fields of a dataclass, which must be `n`. 0, or -1 with an exception set. */
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

/* ---- objects by name */

/* Keep the members of an enumeration, in the order of their definition. 0, or -1 with an exception set. */
static int
take_members(ModuleState *st, size_t which, PyObject *kind)
{
    PyObject **into = members_at(st, which), *all = PySequence_List(kind);
    if (all == NULL) {
        return -1;
    }
    if (PyList_GET_SIZE(all) != ENUMS[which].n) {
        PyErr_Format(PyExc_SystemError, "bursar._native and the law do not agree on %s", ENUMS[which].name);
        Py_DECREF(all);
        return -1;
    }
    for (Py_ssize_t i = 0; i < ENUMS[which].n; i++) {
        Py_XSETREF(into[i], Py_NewRef(PyList_GET_ITEM(all, i)));
    }
    Py_DECREF(all);
    return 0;
}

/* What some objects need besides being kept. 0, or -1 with an exception set. */
static int
prepare_object(ModuleState *st, size_t which, PyObject *thing)
{
    switch (which) {
    case PY_CancelReason:
        return adopt_fields(thing, st->reason_slots, Py_ARRAY_LENGTH(st->reason_slots));
    case PY_Outcome:
        return adopt_fields(thing, st->outcome_slots, Py_ARRAY_LENGTH(st->outcome_slots));
    case PY_OP:
        return PyObject_SetAttrString((PyObject *)st->Request, "cost", thing);
    default:
        return 0;
    }
}

/* Keep one object under its name (SEAM-1). 0, or -1 with an exception set. */
static int
take(ModuleState *st, const char *name, PyObject *thing)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ENUMS); i++) {
        if (strcmp(ENUMS[i].name, name) == 0) {
            return take_members(st, i, thing);
        }
    }
    for (size_t i = 0; i < PY_OBJECTS; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            Py_XSETREF(st->py[i], Py_NewRef(thing));
            return prepare_object(st, i, thing);
        }
    }
    PyErr_Format(PyExc_SystemError, "bursar._native has no use for %s: see native/python/module/names_from_python.h",
                 name);
    return -1;
}

/* Keep every object of a dict. 0, or -1 with an exception set. */
static int
take_all(ModuleState *st, PyObject *things)
{
    Py_ssize_t at = 0;
    PyObject *key, *thing;
    if (!PyDict_Check(things)) {
        PyErr_SetString(PyExc_TypeError, "a dict of names and objects is needed");
        return -1;
    }
    while (PyDict_Next(things, &at, &key, &thing)) {
        const char *name = PyUnicode_AsUTF8(key);
        if (name == NULL || take(st, name, thing) < 0) {
            return -1;
        }
    }
    return 0;
}

const char expose_doc[] = PyDoc_STR("expose(things, /)\n--\n\nHand over objects that C uses, by their names.");

PyObject *
expose(PyObject *module, PyObject *things)
{
    return take_all(PyModule_GetState(module), things) < 0 ? NULL : Py_NewRef(Py_None);
}

const char adopt_doc[] =
    PyDoc_STR("adopt(law, /)\n--\n\nHand over every class and function of the law that C uses, by their names.");

PyObject *
adopt(PyObject *module, PyObject *law)
{
    ModuleState *st = PyModule_GetState(module);
    if (take_all(st, law) < 0 || PyObject_SetAttrString((PyObject *)st->Request, "timed", Py_False) < 0) {
        return NULL;
    }
#define X(name)                              \
    if (py_require(st, PY_##name) == NULL) { \
        return NULL;                         \
    }
    SEAM_LAW(X)
#undef X
    for (size_t i = 0; i < Py_ARRAY_LENGTH(ENUMS); i++) {
        if (*members_at(st, i) == NULL) {
            PyErr_Format(PyExc_SystemError, NOT_EXPOSED, ENUMS[i].name);
            return NULL;
        }
    }
    st->adopted = true;
    Py_RETURN_NONE;
}

const char unexposed_doc[] = PyDoc_STR("unexposed()\n--\n\nThe names that C uses and that no module has exposed yet.");

PyObject *
unexposed(PyObject *module, PyObject *Py_UNUSED(none))
{
    ModuleState *st = PyModule_GetState(module);
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names != NULL && i < PY_OBJECTS + Py_ARRAY_LENGTH(ENUMS); i++) {
        bool object = i < PY_OBJECTS, there = (object ? st->py[i] : *members_at(st, i - PY_OBJECTS)) != NULL;
        PyObject *name = there ? NULL : PyUnicode_FromString(object ? NAMES[i] : ENUMS[i - PY_OBJECTS].name);
        if ((name != NULL && PyList_Append(names, name) < 0) || PyErr_Occurred()) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}
