/* The requests that nearly every task makes: checkpoint, sleep, join, end of a task (builtin_requests.c). After ops/clock.py
 * and ops/task.py. module.c needs the types; nursery_exit.c shares how a join waits.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec checkpoint_spec, sleep_spec, join_spec, ended_spec;
PyObject *sleep_for(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names); /* sleep(seconds) */
Request *checkpoint_new(ModuleState *st); /* the one request of its kind */
