/* Calls of other threads in C (calls.c): what module.c needs to make the type. */

#ifndef BURSAR_PYTHON_CALLS_H
#define BURSAR_PYTHON_CALLS_H

#include "core.h"

/* Adds the type to the module. 0, or -1 with an exception set. */
int calls_exec(PyObject *module);

#endif
