/* The answer to a request: it is billed, then performed (request_answer.c). poll.c calls it. */

#pragma once

#include "python/drive/driver.h"

typedef enum { ASK_ERROR = -1, ASK_ANSWERED = 0, ASK_SUSPENDED = 1 } AskResult;

/* Bill and perform a request, unless a cancellation is delivered first. Steals `request`. ANSWERED: *value is the
 * result, or *error is to be raised at the await point; new references. SUSPENDED: the poll is over. */
AskResult driver_answer(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error);

/* A request failed, with an exception set. 0: *error is to be raised at the await point. -1: the exception ends the
 * run, because it is a bug of Bursar or no Exception, or because the task waits already. */
COLD int driver_refused(Driver *self, Task *task, PyObject **error);
