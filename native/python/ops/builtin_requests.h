/* What builtin_requests.c offers to module.c. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec checkpoint_spec, sleep_spec, join_spec, ended_spec;
PyObject *sleep_for(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names); /* sleep(seconds) */
Request *checkpoint_new(ModuleState *st); /* the one request of its kind */
