/* How a scheduler stops (shutdown.c), and how it counts the calls of outside threads (SCHEDULER-4). */
#pragma once

#include "engine/scheduler.h"

/* Cancel everything, wait until all tasks have ended, join all threads, free everything. ENGINE_INVALID if a task calls
 * it, or if it was called before. A task that never makes a call that could wait keeps this waiting. */
int scheduler_stop(Scheduler *scheduler, Task *caller);

/* An outside thread enters a call, or is refused because the scheduler stops; and leaves it (SCHEDULER-4). */
bool scheduler_enter(Scheduler *scheduler);
void scheduler_leave(Scheduler *scheduler);

/* If every spawned task has ended, wake the thread that stops the scheduler. */
void scheduler_check_quiet(Scheduler *scheduler);
