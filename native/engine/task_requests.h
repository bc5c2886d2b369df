/* Requests to one task: to stop, to pause, to resume.
 *
 *     task->cancel:   < generation      no request to this task
 *                     = generation      it must stop; nothing revokes that
 *                     = generation + 1  it must pause
 *
 * Any holder of a handle may make a request. A task pauses at its next call that could wait, even if it has not begun
 * yet. It is PAUSED there until it is resumed or must stop. A task that already waits pauses where it is. Its operation
 * stays in its queue and may take effect (WAIT-2); the task gets the answer after it is resumed. A task that has a
 * lender reports to it that it is paused (lender.h).
 *
 * PAUSE-1  a request is noted by compare-and-swap, and only over an older one. So a late request, for a task that has
 *     ended, does not erase a request to the next task in the same record
 * PAUSE-2  a resume is a wake, and so is a cancel request. Neither can be lost between the task's check and its rest:
 *     the task is RUNNING then, and finds the wake noted in its word (TASK-4 of task.h). A pause is a wake as well, so
 *     that a waiting task can report that it is paused
 *
 * Rejected: to take a paused task out of its queue (a deque has no removal from the middle); to check the flag in every
 * dispatch (the check at the next call is enough, and exists already).
 */
#pragma once

#include "engine/task.h"

/* Note a request, `generation` or `generation + 1`, for the task of that generation. Returns false if there is a later
 * request (PAUSE-1). */
bool task_note_request(Task *task, uint32_t generation, uint32_t request);

/* Ask a task to pause. ENGINE_OK, also if it was asked before; ENGINE_CANCELLED if it must stop; ENGINE_INVALID if it
 * has ended. Any thread; `worker` is the caller's, or NULL. */
int task_pause(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* Let a task go on. ENGINE_OK, or ENGINE_INVALID if it was not asked to pause. Any thread; `worker` is the caller's, or
 * NULL. */
int task_resume(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* The running task is PAUSED until it is resumed or must stop. */
void task_wait_while_paused(Task *self);

/* The running task is about to wait, or was woken before its wait is over. If it was asked to pause, this reports to
 * its lender that it is paused and returns true; then the caller calls task_wait_while_paused after the wait. */
bool task_report_if_paused(Task *self);
