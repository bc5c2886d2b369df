/* The allowance for cleanup of a cancelled task: ops and time (cleanup.c). After law/cleanup.py.
 *
 * cancel.c, wake.c, nursery_ops.c and task_end.c call this. All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

int cancel_begin_cleanup(Kernel *k, Task *task);
int cancel_pause_cleanup(Kernel *k, Task *task); /* its time stands still, while the task waits for children */
int cancel_resume_cleanup(Kernel *k, Task *task);
int cancel_end_cleanup(Kernel *k, Task *task);
int cleanup_promise(Kernel *k, Task *task); /* the running task may clean up, and its timer is promised (CLEANUP-1) */
COLD int cleanup_keep(Kernel *k);           /* arm the timer that is promised */

/* Arm the promised timer, if there is one: before anything could see that it is missing. */
static inline int
cleanup_kept(Kernel *k)
{
    return LIKELY(k->postponed.promised == NULL) ? 0 : cleanup_keep(k);
}
