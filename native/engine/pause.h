/* Requests to one task by name: to stop, to stand still, to go on.
 *
 *     task->cancel:   < generation      nothing was asked of this task
 *                     = generation      it is to stop; nothing takes that back
 *                     = generation + 1  it is to stand still
 *
 * Whoever holds a handle may ask. A task that is to stand still does so at its next call that could wait, also if it has not
 * begun yet, and is PAUSED there until it is resumed or asked to stop. One that waits stands where it does: what it
 * waits for goes on, and an operation that took effect is answered as such (WAIT-2), but not before it may go on. A
 * task that another scheduler has had run here says that it stands (lender.h).
 *
 * PAUSE-1  a request is noted by compare-and-swap, and only over an older one: whoever comes late, for a task that has
 *     ended, does not erase what was asked of the next one in the same record
 * PAUSE-2  a resumption is a wake, and so is a request to stop; neither can fall between the look and the rest: the
 *     task is on its way then, and finds the note (TASK-4 of task.h). A pause is a wake as well, so that a task which
 *     waits can say that it stands
 *
 * Rejected: taking a paused task out of its queue (a deque has no middle), and a look at the flag in every dispatch (the one
 * at the next call is enough, and is there already).
 */
#pragma once

#include "engine/task.h"

/* Note a request, `generation` or `generation + 1`, for the task of that generation. False: there is a later one
 * (PAUSE-1). */
bool task_note_request(Task *task, uint32_t generation, uint32_t request);

/* Ask a task to stand still. ENGINE_OK, also if it does already; ENGINE_CANCELLED if it is to stop; ENGINE_INVALID if it has
 * ended. Any thread; `worker` is the caller's, or NULL. */
int task_pause(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* Let it go on. ENGINE_OK, or ENGINE_INVALID if nobody had asked it to stand still. Any thread; `worker` is the caller's, or
 * NULL. */
int task_resume(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* The running task stands still until it may go on, or is to stop. */
void task_stand_still(Task *self);

/* The running task is about to wait, or was woken and what it waits for is not there. If it is to stand still it does
 * from here on: whoever wants to know is told, and this answers true. Then task_stand_still comes after the wait. */
bool task_stands_waiting(Task *self);
