/* A stretch (stretch.c): the code of a metered task between two waits. Its account is entered before and left after.
 * resume.h calls these functions. */

#pragma once

#include "python/drive/driver.h"

/* A metered task's code begins to run: 0, or -1 with an exception set. */
int metered_enter(Driver *self, Task *task);

/* The code waits: the error to raise in it, or None; NULL with an exception set. */
PyObject *metered_leave(Driver *self, Task *task);

/* The code has ended, with `error` or without (NULL): the error to raise instead, or None; NULL with an exception set. */
PyObject *metered_end(Driver *self, Task *task, PyObject *error);
