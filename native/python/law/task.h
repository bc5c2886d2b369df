/* The record of a task, and the arguments that it begins with (task.c). After law/task.py.
 *
 * Any C file may read a task. `state` changes only through `task_move`, or in the fast paths through `law_state_move`,
 * which names both states. dispatch.c and dispatch_wake.c write the lane, the wake state and the answer; ledger.c what
 * was spent; cancel*.c and cleanup.c the fields of `TaskExtra` about cancellation.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec task_spec, arguments_spec; /* `task_spec`: task_py.c */

/* Whether an object is a task. No class derives from Task, so no other type has this destructor. */
void task_dealloc(Task *task);
static inline bool
is_task(const PyObject *thing)
{
    return Py_TYPE(thing)->tp_dealloc == (destructor)task_dealloc;
}

int task_visit(Task *task, visitproc visit, void *arg); /* visit what the task refers to, except its type */
int task_clear(Task *task);                             /* release all that; always 0 */
/* The rarely needed fields of a task, made at their first use. NULL with MemoryError set. */
TaskExtra *task_extra(Task *task);
/* Whether a nursery of the task has live children. */
bool task_has_children(const Task *task);
/* The Outcome of a DONE task, None before. New reference, or NULL with an exception set. */
PyObject *task_outcome(ModuleState *st, Task *task);
/* Change the state, if the table allows it. 0, or -1 with IllegalTransition set. */
int task_move(Task *task, LawState to);
/* The call of a task's function failed, and the task must fail with that error: a coroutine that raises the exception
 * that is set. New reference, or NULL with an exception set, if that is no Exception (KeyboardInterrupt). */
COLD PyObject *task_raise_later(ModuleState *st);

/* Whether the task has a function and has not begun: there is no coroutine yet. */
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
/* Four fields of the TaskExtra, or their values where there is none (CANCEL-5 in cancel.c). */
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

/* ---- the beginning: until its first poll a task keeps its function in `work`, and the Arguments in `answer` */

/* The arguments of a call. New reference, or NULL with MemoryError set. */
PyObject *arguments_new(ModuleState *st, PyObject *const *items, Py_ssize_t n);
void arguments_dealloc(Arguments *arguments);

/* The arguments of a task that has not begun; NULL if `answer` holds no arguments. */
static inline Arguments *
task_arguments(const Task *task)
{
    bool has = task->answer != NULL && Py_TYPE(task->answer)->tp_dealloc == (destructor)arguments_dealloc;
    return has ? (Arguments *)(void *)task->answer : NULL;
}

/* Make the coroutine of a task that is `task_not_begun`. 0, or -1 with an exception set: the task is as before. */
static inline int
task_begin(ModuleState *st, Task *task)
{
    Arguments *args = task_arguments(task);
    task->answer = NULL;
    PyObject *work = function_call(task->work, args ? args->item : NULL, args ? (size_t)Py_SIZE(args) : 0);
    if (!LIKELY(work != NULL) && (work = task_raise_later(st)) == NULL) {
        task->answer = (PyObject *)args;
        return -1;
    }
    Py_XDECREF((PyObject *)args);
    Py_SETREF(task->work, work);
    return 0;
}
