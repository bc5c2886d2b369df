/* Waking, the fast path: the answer to a task that waits bare. The slow twin is `k_wake` in wake.c, which calls this. */

#pragma once

#include "python/fast_paths.h"
#include "python/law/dispatch_fast.h"
#include "python/law/wake.h"

/* Whether a task waits by itself and has left the list that it stood in: an answer is all that its wait wants. One that
 * sleeps has a timer instead, and a paused one is queued by nobody. */
static inline bool
is_plain_wait(const Kernel *k, const Task *task)
{
    return FAST_PATHS && k->observer == NULL && task->bare && !task->timed && !law_linked(&task->link) &&
           task->state == LAW_STATE_BLOCKED && task->wake == LAW_WAKE_IDLE;
}

/* What `k_wake` comes to there: ENQUEUE, and there is no queue to leave. */
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
