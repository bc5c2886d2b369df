/* The record of a task (task.c). After law/task.py.
 *
 * Any C file may read a task. `state` changes by `task_move`, or by `law_state_move` in the fast paths, which name the
 * arrow; dispatch.c and wake.c own lane, wake state and answer; ledger.c owns the money; cancel*.c and cleanup.c own
 * the rest of `TaskExtra` that is about cancellation.
 */

#pragma once

#include "python/law/records.h"

/* Whether an object is a task. Nobody derives from that type, so its destructor tells it from all others. */
void task_dealloc(Task *task);
static inline bool
is_task(const PyObject *thing)
{
    return Py_TYPE(thing)->tp_dealloc == (destructor)task_dealloc;
}

int task_visit(Task *task, visitproc visit, void *arg); /* visit what the task refers to, except its type */
int task_clear(Task *task);                             /* let go of all that; always 0 */
/* The rarely needed fields of a task, made at their first use. NULL with MemoryError set. */
TaskExtra *task_extra(Task *task);
/* Whether a nursery of the task has live children. */
bool task_has_children(const Task *task);
/* The Outcome of a DONE task, None before. New reference, or NULL with an exception set. */
PyObject *task_outcome(ModuleState *st, Task *task);
/* Change the state, by the table. 0, or -1 with IllegalTransition set. */
int task_move(Task *task, LawState to);
/* The call of a task's function failed, which is the failure of the task: a coroutine that raises the error that is set.
 * New reference, or NULL with an exception set. */
COLD PyObject *task_raise_later(ModuleState *st);

/* Whether it was given a function and has not begun: there is no coroutine yet. */
static inline bool
task_not_begun(const Task *task)
{
    return !task->started && task->state != LAW_STATE_DONE && task->work != NULL && PyFunction_Check(task->work);
}
static inline CancelScope *
task_inner(const Task *task)
{
    return task->extra ? task->extra->inner : NULL;
}
static inline Kernel *
task_kernel(const Task *task)
{
    return task->nursery->kernel;
}
/* What a TaskExtra says of a cancellation, or goes without saying where there is none (CANCEL-5 in cancel.c). */
static inline int32_t
task_requested(const Task *task)
{
    return task->extra ? task->extra->requested : task->phase == LAW_PHASE_REQUESTED;
}
static inline int32_t
task_draining(const Task *task)
{
    return task->extra ? task->extra->draining : task->phase == LAW_PHASE_DRAINING;
}
static inline PyObject * /* borrowed, or NULL */
task_reason(const Task *task)
{
    return task->extra                                      ? task->extra->reason
           : task->phase != LAW_PHASE_IDLE && task->nursery ? task->nursery->why
                                                            : NULL;
}
static inline int64_t
task_cleanup_left(const Task *task)
{
    int64_t whole = task->extra == NULL && task->phase == LAW_PHASE_DRAINING ? task_kernel(task)->cleanup_ops : -1;
    return task->extra ? task->extra->cleanup_left : whole;
}

static inline bool
task_cleans_up(const Task *task)
{
    return task->extra ? task->extra->cleanup_left >= 0 : task->phase == LAW_PHASE_DRAINING;
}
