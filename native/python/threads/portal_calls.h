/* Calls from other threads into the loop (portal_calls.c). After threads/portal.py. Only module.c needs it. */

#pragma once

#include "python/law/records.h"

/* Adds the type to the module. 0, or -1 with an exception set. */
int portal_calls_exec(PyObject *module);
