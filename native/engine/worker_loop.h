/* The loop of a worker: takes the next task and runs it, or searches, or sleeps (worker_loop.c). How a task leaves its
 * worker is in task_leave.h.
 */
#pragma once

#include "engine/worker.h"

/* The loop of every worker: for runner_init. */
void worker_loop(struct runner *runner);
