/* Calls of other threads in C (portal_calls.c): what module.c needs to make the type. */

#pragma once

#include "python/law/records.h"

/* Adds the type to the module. 0, or -1 with an exception set. */
int portal_calls_exec(PyObject *module);
