/* Opening, closing and ending nurseries (nursery_ops.c). After law/kernel.py. nursery.h has the record. */

#pragma once

#include "python/law/nursery.h"

/* Open a nursery owned by `owner`. The owner's pools fill its purse. `name` and `capabilities` may be NULL. New
 * reference. NULL with an exception set: nothing has changed. */
Nursery *k_open_nursery(Kernel *k, Task *owner, PyObject *name, PyObject *budget, PyObject *capabilities);
/* The body of the block has ended. The nursery closes with its last child. Idempotent. 0, or -1 with an exception set. */
int k_close_nursery(Kernel *k, Nursery *nursery);
/* Every child has ended, and the owner leaves the block. 0, or -1 with an exception set. */
int k_end_nursery(Kernel *k, Nursery *nursery);
