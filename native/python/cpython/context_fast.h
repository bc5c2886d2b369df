/* Context variables, the fast paths: tasks that set no variable share one context. The slow twins are in context.c: every
 * task has its own copy, which is entered before each poll and left after it.
 */

#pragma once

#include "python/cpython/context.h"
#include "python/fast_paths.h"

/* Give a new task a copy of the spawner's variables. Tasks with the same variables share one copy (`borrows`). */
static inline int
context_at_spawn(Kernel *k, Task *task)
{
    PyObject *current = current_context();
    if (!LIKELY(FAST_PATHS && k->caches.snapshot != NULL && current != NULL && k->st->contexts_comparable &&
                have_same_variables(current, k->caches.snapshot))) {
        return context_copied(k, task);
    }
    task->context = Py_NewRef(k->caches.snapshot);
    task->borrows = 1;
    return 0;
}

static inline PyObject *
context_enter(Kernel *k, Task *task)
{
    /* CONTEXT-1 */
    if (LIKELY(FAST_PATHS && context_stays(k) && task->borrows &&
               have_same_variables(k->caches.shared_context, task->context))) {
        k->caches.in_shared_context = task;
        return Py_NewRef(k->caches.shared_context);
    }
    return context_set(k, task);
}

/* Whether the task leaves the shared context unchanged and unreferenced, so that the thread may stay in it. */
static inline bool
context_is_plain(const Kernel *k, const Task *task, PyObject *context)
{
    enum { HOLDERS = 3 }; /* CONTEXT-2: the kernel, the thread, and the caller */
    return FAST_PATHS && k->caches.in_shared_context == task && task->borrows && Py_REFCNT(context) == HOLDERS &&
           have_same_variables(context, task->context);
}

/* The thread stays in the shared context. Only if `context_is_plain`. */
static inline void
context_pause_fast(Kernel *k, PyObject *context)
{
    k->caches.in_shared_context = shared_context_idle(k);
    Py_DECREF(context);
}

static inline int
context_pause(Kernel *k, Task *task, PyObject *context)
{
    if (!LIKELY(context_is_plain(k, task, context))) {
        return context_exit(k, task, context);
    }
    context_pause_fast(k, context);
    return 0;
}
