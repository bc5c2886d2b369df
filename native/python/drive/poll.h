/* One step: a decision, and one poll of one coroutine (poll.c). After drive/coroutine.py. driver.c calls it. */

#pragma once

#include "python/drive/driver.h"

/* One step; if `straight`, more steps as long as each ends in a plain yield. *most: the largest number of steps; it is
 * counted down. `task`: a task that was dispatched before, whose poll comes first and is not counted; or NULL. */
Step driver_steps(Driver *self, Task *task, bool straight, long *most);

/* Run a task that was just dispatched until its poll is over. 0, or -1 with an exception set. */
int driver_poll(Driver *self, Task *task);

/* Call a method of the Python class for its effect; `what` may be NULL. 0, or -1 with an exception set. */
int driver_call(Driver *self, const char *name, PyObject *task, PyObject *what);
