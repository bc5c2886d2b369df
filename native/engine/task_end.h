/* The end of a task (task_end.c): its outcome, its refund, and what its nursery and its listeners get. */
#pragma once

#include "engine/worker.h"

/* A task has ended on this worker: settle everything, and end whoever waited for that with its own end. */
void task_end(Worker *worker, Task *task, enum fiber_state state);

/* The same for one that its owner has called above itself: the nursery is not told, the owner counts. False: it is not
 * at its end yet (CHILDREN-4), and the nursery will be told. */
bool task_end_above(Worker *worker, Task *task, enum fiber_state state);
