/* The context variables of new tasks: see context.c. All return 0, or -1 with an exception set. */

#pragma once

#include "python/law/records.h"

int context_try(bool *comparable);         /* once: whether contexts can be told apart by what they hold */
int context_copied(Kernel *k, Task *task); /* a new task begins with a copy, which the next ones may share */
int context_of_its_own(Task *task);        /* for one that `borrows`: somebody wants to have it */

/* How CPython 3.11 to 3.14 lay out a context, up to the field that is read. */
typedef struct {
    PyObject_HEAD
    PyObject *previous;
    PyObject *variables; /* an immutable mapping: another object after every change */
} ContextLayout;

static inline PyObject *
variables_of(PyObject *context)
{
    return ((ContextLayout *)(void *)context)->variables;
}

/* What a new task begins with: a copy of the spawner's variables, together with others (`borrows`) while they are the
 * same. */
static inline int
context_at_spawn(Kernel *k, Task *task)
{
    PyObject *current = PyThreadState_Get()->context;
    if (!LIKELY(k->caches.snapshot != NULL && current != NULL && k->st->contexts_comparable &&
                variables_of(current) == variables_of(k->caches.snapshot))) {
        return context_copied(k, task);
    }
    task->context = Py_NewRef(k->caches.snapshot);
    task->borrows = 1;
    return 0;
}

/* Around a poll: the context that the task runs in, new reference or NULL with an exception set, which is given back when
 * the task pauses or exits. Where it pauses the thread may stay on the stage, for the next poll (CONTEXT-3). */
PyObject *context_set(Kernel *k, Task *task);
int context_exit(Kernel *k, Task *task, PyObject *context);
int context_quit(Kernel *k);

/* Who is on the stage if nobody is, but the thread has not left it: a word that is no task. */
static inline Task *
context_stayer(const Kernel *k)
{
    return (Task *)(uintptr_t)&k->caches.on_stage;
}

static inline bool
context_stays(const Kernel *k)
{
    return k->caches.on_stage == context_stayer(k);
}
static inline int
context_leave(Kernel *k)
{
    return context_stays(k) ? context_quit(k) : 0;
}

static inline PyObject *
context_enter(Kernel *k, Task *task)
{
    /* CONTEXT-1 */
    if (LIKELY(context_stays(k) && task->borrows && variables_of(k->caches.stage) == variables_of(task->context))) {
        k->caches.on_stage = task;
        return Py_NewRef(k->caches.stage);
    }
    return context_set(k, task);
}

/* Whether the task leaves the stage as it was, and nobody else holds it, so that the thread may stay. */
static inline bool
context_is_plain(const Kernel *k, const Task *task, PyObject *context)
{
    enum { HOLDERS = 3 }; /* CONTEXT-2: the kernel, the thread, and the caller */
    return k->caches.on_stage == task && task->borrows && Py_REFCNT(context) == HOLDERS &&
           variables_of(context) == variables_of(task->context);
}

/* The thread stays, where that is so. */
static inline void
context_pause_plainly(Kernel *k, PyObject *context)
{
    k->caches.on_stage = context_stayer(k);
    Py_DECREF(context);
}

static inline int
context_pause(Kernel *k, Task *task, PyObject *context)
{
    if (!LIKELY(context_is_plain(k, task, context))) {
        return context_exit(k, task, context);
    }
    context_pause_plainly(k, context);
    return 0;
}
