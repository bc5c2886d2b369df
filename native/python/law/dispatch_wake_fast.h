/* Waking, the fast path: the answer to a task that waits bare. The slow twin is `k_wake` in dispatch_wake.c. */

#pragma once

#include "python/fast_paths.h"
#include "python/law/dispatch_fast.h"
#include "python/law/dispatch_wake.h"

/* Whether a task waits bare and has left its wait list, so that only the answer is missing. Not for a task that sleeps,
 * which has a timer instead of a list, nor for a paused task, which a wake does not queue. */
static inline bool
is_plain_wait(const Kernel *k, const Task *task)
{
    return FAST_PATHS && k->observer == NULL && task->bare && !task->timed && !law_linked(&task->link) &&
           task->state == LAW_STATE_BLOCKED && task->wake == LAW_WAKE_IDLE;
}

/* What `k_wake` does in that case: the effect is ENQUEUE, and the task is in no list. */
static inline int
answer_fast(Kernel *k, Task *task, PyObject *value)
{
    PyObject *operation = task->pending;
    task->effect = 1;
    task->raises = 0;
    task->bare = 0;
    task->pending = NULL;
    Py_XSETREF(task->answer, Py_XNewRef(value == Py_None ? NULL : value));
    int failed = k_ready_new(k, task);
    Py_DECREF(operation); /* last, as in `k_end_wait` */
    return failed;
}
