/* A spawn that needs permission (gate_spawn.c). After ops/gate_spawn.py. Only handle.c calls it. */

#pragma once

#include "python/law/records.h"

/* Spawn through the gate, if the spawn is a usual one. `coroutine`: the function is an `async def`; otherwise it
 * runs on a thread. New reference to a handle. NULL without an exception: Python must handle the spawn, and nothing
 * was done. */
PyObject *ask_fast(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
                   bool coroutine);
