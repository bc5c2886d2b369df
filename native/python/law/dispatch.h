/* Dispatch (dispatch.c): the lanes, and which task runs next. After law/dispatch.py.
 *
 * All functions return 0, or -1 with an exception set. What every poll does is in dispatch_fast.h.
 */

#pragma once

#include "python/law/records.h"

int k_reserve_timed(Kernel *k, Task *task); /* so that queueing it by a timer cannot fail for want of memory */
int k_ready(Kernel *k, Task *task, bool timed, int64_t deadline_ns);   /* READY and queued (DISPATCH-1) */
int k_enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns); /* queue a task that is READY already */
int k_unqueue(Kernel *k, Task *task);                                  /* a READY task leaves its lane */
void k_forget(Kernel *k, Task *task); /* out of its lane, when a run is dropped in the middle */

/* One decision. *task: borrowed from `current`; NULL: nothing is runnable. */
int k_step(Kernel *k, Task **task);
/* The end of a step, in any case; `k_step_over` in dispatch_fast.h knows the usual one. */
int k_step_over_slow(Kernel *k, Task *task);
