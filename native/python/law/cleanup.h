/* The cleanup allowance of a task: ops and time (cleanup.c). After law/cleanup.py.
 *
 * All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

/* Start the cleanup of a task: from now on its cleanup allowance counts. */
int cancel_begin_cleanup(Kernel *k, Task *task);
/* Stop the cleanup time of a task that only waits for cancelled children. They have their own allowances, or
 * shields. */
int cancel_pause_cleanup(Kernel *k, Task *task);
/* Let the cleanup time run again, if the task cleans up and does not only wait for cancelled children. */
int cancel_resume_cleanup(Kernel *k, Task *task);
/* The task left the cancelled block in time: its cleanup is over. */
int cancel_end_cleanup(Kernel *k, Task *task);
/* Promise a cleanup timer to the running task (CLEANUP-1). */
int cleanup_promise(Kernel *k, Task *task);
COLD int cleanup_arm_promised_slow(Kernel *k); /* arm the timer that is promised */

/* Arm the promised timer, if there is one. Called before code could notice that it is missing (CLEANUP-2,
 * CLEANUP-3). */
static inline int
cleanup_arm_promised(Kernel *k)
{
    return LIKELY(k->postponed.promised == NULL) ? 0 : cleanup_arm_promised_slow(k);
}
