/* `sleep` (clock.c). After ops/clock.py. Only module.c needs it. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec sleep_spec;
PyObject *sleep_for(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names); /* sleep(seconds) */
