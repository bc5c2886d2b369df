/* The end of a task (task_end.c): its outcome, its refund, and what its nursery and its listeners get. */
#pragma once

#include "engine/worker.h"

/* A task has ended on this worker: end it, and every task whose end waited for that. */
void task_end(Worker *worker, Task *task, enum fiber_state state);

/* The same for a task that its owner has called above itself. The nursery does not count it; the owner does. Returns
 * false if it cannot end yet (CHILDREN-4): then the nursery will count it. */
bool task_end_above(Worker *worker, Task *task, enum fiber_state state);
