/* Dispatch (dispatch.c): the lanes, and the choice of the task that runs next. After law/dispatch.py.
 *
 * Functions that return int return 0, or -1 with an exception set. dispatch_fast.h has the fast paths.
 */

#pragma once

#include "python/law/records.h"

/* Reserve room in the task's timed lane, so that queueing the task cannot run out of memory. */
int k_reserve_timed(Kernel *k, Task *task);
/* Make the task READY and queue it (DISPATCH-1). `timed`: a timer with this deadline woke it. */
int k_ready(Kernel *k, Task *task, bool timed, int64_t deadline_ns);
/* Put a READY task in its lane. */
int k_enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns);
/* Take a READY task out of its lane. */
int k_unqueue(Kernel *k, Task *task);
/* Take a task out of its lane, if it is in one, because the program dropped its run. There is no event. */
void k_forget(Kernel *k, Task *task);

/* Make one decision. *task: the task to poll, borrowed from `current`; NULL if no task is runnable. */
int k_step(Kernel *k, Task **task);
/* The poll of `task` is over, and so is the step. The slow path of `k_step_over` in dispatch_fast.h. */
int k_step_over_slow(Kernel *k, Task *task);
