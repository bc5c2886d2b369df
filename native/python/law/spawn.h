/* Spawning (spawn.c). After law/kernel.py. The usual spawn is in spawn_fast.h. */

#pragma once

#include "python/law/records.h"

enum { SPAWN_PINNED = 1, SPAWN_ACTING = 2, SPAWN_AGAIN = 4 }; /* the flags of `Kernel.spawn` */

/* A new task in a nursery, READY, or PENDING if it has a `ticket` (or NULL) to wait for permission with. `name`,
 * `capabilities` and `spawner` may be NULL: numbered, handed on, the running task. New reference. NULL with an exception
 * set: nothing has changed. */
Task *k_spawn(Kernel *k, Nursery *nursery, PyObject *name, PyObject *budget, PyObject *capabilities, unsigned how,
              Task *spawner, PyObject *ticket);
/* The capability of this kind that the task holds, for an operation. Borrowed. NULL with CapabilityDenied set. */
PyObject *k_capability(Kernel *k, Task *task, PyObject *kind, const char *operation);
/* Tell the registry the uses that were only counted in the kernel. 0, or -1 with an exception set. */
int k_flush_uses(Kernel *k);
