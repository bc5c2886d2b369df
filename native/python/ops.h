/* What ops.c offers to module.c. */

#ifndef BURSAR_PYTHON_OPS_H
#define BURSAR_PYTHON_OPS_H

#include "core.h"

extern PyType_Spec checkpoint_spec, sleep_spec, join_spec, ended_spec;
PyObject *sleep_for(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names); /* sleep(seconds) */
Request *checkpoint_new(State *st); /* the one request of its kind */

#endif
