/* Spawning (spawn.c). After law/kernel.py. spawn_fast.h has the fast path. */

#pragma once

#include "python/law/records.h"

enum { SPAWN_PINNED = 1, SPAWN_ACTING = 2, SPAWN_AGAIN = 4 }; /* the flags of `Kernel.spawn` */

/* Make a task in `nursery`: READY, or PENDING if it has a `ticket`. NULL for `name` means a name with the id, for
 * `capabilities` the inherited ones, for `spawner` the running task, for `ticket` none. New reference. NULL with an
 * exception set: nothing has changed. */
Task *k_spawn(Kernel *k, Nursery *nursery, PyObject *name, PyObject *budget, PyObject *capabilities, unsigned how,
              Task *spawner, PyObject *ticket);
/* The task's capability of this kind, for an operation. Borrowed. NULL with CapabilityDenied set. */
PyObject *k_capability(Kernel *k, Task *task, PyObject *kind, const char *operation);
/* Add the uses that only the kernel has counted to the registry. 0, or -1 with an exception set. */
int k_flush_uses(Kernel *k);
