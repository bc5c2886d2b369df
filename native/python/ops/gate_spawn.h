/* A spawn that needs permission (gate_spawn.c). After ops/spawn.py. Only handle.c calls it. */

#pragma once

#include "python/law/records.h"

/* A spawn by the gate, if it is of the usual kind. `coroutine`: the function is an `async def`; otherwise it is for a
 * thread. New reference to a handle. NULL without an exception: it is not of that kind, and nothing was done. */
PyObject *ask_fast(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
                   bool coroutine);
