/* A stretch of a metered task's code (stretch.c): its account is entered before and left after. resume.h calls it. */

#pragma once

#include "python/drive/driver.h"

/* A metered task's code begins to run: 0, or -1 with an exception set. */
int metered_enter(Driver *self, Task *task);

/* It has stopped, but will run again: the error to raise where it stands, or None; NULL with an exception set. */
PyObject *metered_leave(Driver *self, Task *task);

/* It will not run again, and ended with `error`, or well (NULL): what to raise instead, or None; NULL likewise. */
PyObject *metered_end(Driver *self, Task *task, PyObject *error);
