/* Requests about tasks: `checkpoint`, Join and Ended (task_requests.c). After ops/task.py and ops/nursery.py. Only
 * module.c needs them.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec checkpoint_spec, join_spec, ended_spec;
Request *checkpoint_new(ModuleState *st); /* the one request of its kind, which all tasks share */
PyObject *checkpoint_ask(PyObject *module, PyObject *const *args, Py_ssize_t n); /* checkpoint() */
