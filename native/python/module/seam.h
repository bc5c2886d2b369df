/* The seam between C and Python: what C knows of the law in Python, and how C calls it. See seam.c. */

#pragma once

#include "python/module/module_state.h"

/* The method `adopt` of the module: take over the dict of classes and functions that C calls by name. Returns None, or
 * NULL with an exception set: a name is missing, or the two sides do not agree on it. */
PyObject *adopt(PyObject *module, PyObject *law);
extern const char adopt_doc[];

/* What the Python side has told by this name; borrowed. NULL: nothing, and no exception, or the search has failed. */
PyObject *law_find(PyObject *told, const char *name);
/* The same of what must be there: NULL always with an exception set. Borrowed. */
PyObject *law_told(PyObject *law, const char *name);
/* Call a function of the Python side by its name, with n positional arguments. New reference, or NULL with an exception
 * set. Every record may have changed afterwards (RECORD-3 in law/records.h). */
PyObject *law_call(State *st, const char *name, PyObject *const *args, Py_ssize_t n);

/* An object of a frozen dataclass with slots, as its constructor would make it, without running the constructor. `slots`
 * are those that `adopt` found (`reason_slots`, `outcome_slots`). New reference, or NULL with MemoryError set. */
PyObject *frozen_new(PyObject *kind, const Py_ssize_t *slots, PyObject *const *values, int n);
/* A field of such an object. New reference, or NULL with AttributeError set: the field was never filled. */
PyObject *frozen_field(PyObject *thing, Py_ssize_t slot);
