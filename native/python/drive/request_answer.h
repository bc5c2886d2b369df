/* The answer to what a coroutine asks for: its bill, then the request itself (request_answer.c). poll.c calls it. */

#pragma once

#include "python/drive/driver.h"

typedef enum { ASK_ERROR = -1, ASK_ANSWERED = 0, ASK_SUSPENDED = 1 } SpawnOptions;

/* Bill and perform a request, which is given away, unless there is an error to raise. ANSWERED: *value is the result, or
 * *error is to be raised at the await point; new references. SUSPENDED: the poll is over. */
SpawnOptions driver_answer(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error);

/* What a request was refused with goes to the await point, as *error; a bug of ours, or worse, goes out. So does what failed
 * when the poll was over: the task waits already, and cannot be told. 0 or -1. */
COLD int driver_refused(Driver *self, Task *task, PyObject **error);
