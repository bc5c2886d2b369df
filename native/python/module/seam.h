/* The seam between C and Python: what C knows of the law in Python, and how C calls it. See seam.c. */

#pragma once

#include "python/module/module_state.h"

/* Methods of the module, for src/bursar/seam.py and backend.py. Each returns None or a list, or NULL with an exception
 * set: a name is missing or unknown, or the two sides do not agree on an enumeration or a dataclass. */
PyObject *adopt(PyObject *module, PyObject *law);      /* all objects of the law at once */
PyObject *expose(PyObject *module, PyObject *things);  /* some objects of the packages that are built on the kernel */
PyObject *unexposed(PyObject *module, PyObject *none); /* the names that have no object yet */
extern const char adopt_doc[], expose_doc[], unexposed_doc[];

/* The object that Python exposed by this name; borrowed. NULL with SystemError set: not exposed yet. */
PyObject *py_require(const ModuleState *st, PyName name);
/* Call a function of the Python side with n positional arguments. New reference, or NULL with an exception set. Every
 * record may have changed afterwards (RECORD-3 in law/records.h). */
PyObject *py_call(const ModuleState *st, PyName name, PyObject *const *args, Py_ssize_t n);

/* An object of a frozen dataclass with slots, as its constructor would make it, without running the constructor. `slots`
 * are those that `adopt` found (`reason_slots`, `outcome_slots`). New reference, or NULL with MemoryError set. */
PyObject *frozen_new(PyObject *kind, const Py_ssize_t *slots, PyObject *const *values, int n);
/* A field of such an object. New reference, or NULL with AttributeError set: the field was never set. */
PyObject *frozen_field(PyObject *thing, Py_ssize_t slot);
