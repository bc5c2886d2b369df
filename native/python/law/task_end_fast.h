/* The end of a task, the fast path: a task that returned. The slow twin is `k_finish` in task_end.c. */

#pragma once

#include "python/fast_paths.h"
#include "python/law/task_end.h"

/* Whether the end of a task that returned has no effects but to remove it from its nursery, and perhaps to wake the
 * owner: the task has no TaskExtra and no pools of its own and was not cancelled, and there is no observer and no
 * supervisor. */
static inline bool
is_plain_end(const Kernel *k, const Task *task)
{
    const Nursery *nursery = task->nursery;
    return FAST_PATHS && task->extra == NULL && task->phase == LAW_PHASE_IDLE && task->state == LAW_STATE_RUNNING &&
           k->current == task && k->observer == NULL && k->postponed.promised == NULL &&
           task->terms->pools == nursery->pools && task->terms->spawn_cap == k->caches.checked_spawn_cap &&
           k->caches.checked_spawn_cap != NULL && nursery->exhausted == NULL && nursery->ends == NULL &&
           nursery->ends_waiter == NULL;
}

/* Make the task DONE with `value`, whose reference it steals, and remove it from its nursery. Returns the coroutine,
 * which the caller must release. */
static inline PyObject *
k_end_fast(Kernel *k, Task *task, PyObject *value)
{
    PyObject *work = task->work;
    k->current = NULL;
    k->postponed.uses -= 1;
    k->live -= 1;
    k->done[LAW_OUTCOME_OK] += 1;
    law_state_move(&task->state, LAW_STATE_RUNNING, LAW_STATE_DONE);
    law_wake_done(&task->wake);
    task->kind = LAW_OUTCOME_OK;
    task->whole = task->cancel_pending = task->raises = task->effect = 0;
    task->work = value;
    law_queue_remove(&task->nursery->children, &task->sibling);
    return work;
}
