/* How a scheduler stops (shutdown.c), and how it counts the threads outside that are inside a call (SCHEDULER-4). */
#pragma once

#include "engine/scheduler.h"

/* Cancel everything, wait until it has ended, join all threads, free everything. Not from a task: ENGINE_INVALID. Called
 * once. Tasks that never reach a point where they could stop keep it waiting. */
int scheduler_stop(Scheduler *scheduler, Task *caller);

/* A thread outside enters, or is refused because the scheduler stops; and leaves (SCHEDULER-4). */
bool scheduler_enter(Scheduler *scheduler);
void scheduler_leave(Scheduler *scheduler);

/* Whether all that was spawned has ended; if so, wakes the thread that stops the scheduler. */
void scheduler_check_quiet(Scheduler *scheduler);
