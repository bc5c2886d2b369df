/* What is done with nurseries: opening, closing, ending (nursery_ops.c). After law/kernel.py. The record is nursery.h. */

#pragma once

#include "python/law/nursery.h"

/* A nursery inside the running task `owner`. `name` and `capabilities` may be NULL. New reference. NULL with an exception
 * set: nothing has changed. */
Nursery *k_open_nursery(Kernel *k, Task *owner, PyObject *name, PyObject *budget, PyObject *capabilities);
/* The body of the block is over: no more spawns. Idempotent. 0, or -1 with an exception set. */
int k_close_nursery(Kernel *k, Nursery *nursery);
/* Every child has ended, and the owner leaves the block. 0, or -1 with an exception set. */
int k_end_nursery(Kernel *k, Nursery *nursery);
