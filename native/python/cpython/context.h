/* The context variables of tasks (context.c). The fast paths are in context_fast.h.
 *
 * handle.c gives a new task its context; drive/resume.h enters and leaves it around each poll. All functions that return int
 * return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

int context_try(bool *comparable);         /* once: whether contexts can be told apart by what they hold */
int context_copied(Kernel *k, Task *task); /* a new task begins with a copy, which the next ones may share */
int context_of_its_own(Task *task);        /* for one that `borrows`: somebody wants to have it */

#if BURSAR_PRIVATE_LAYOUTS

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

/* Whether two contexts hold the same variables, and `contexts_comparable` says that this can be seen. */
static inline bool
have_same_variables(PyObject *one, PyObject *other)
{
    return variables_of(one) == variables_of(other);
}

/* The current context, borrowed, or NULL. */
static inline PyObject *
current_context(void)
{
    return PyThreadState_Get()->context;
}

#else

/* It cannot be seen: every task has a copy of its own, and no task borrows. */
static inline bool
have_same_variables(PyObject *Py_UNUSED(one), PyObject *Py_UNUSED(other))
{
    return false;
}

static inline PyObject *
current_context(void)
{
    return NULL;
}

#endif

/* Around a poll: the context that the task runs in, new reference or NULL with an exception set, which is given back when
 * the task pauses or exits. Where it pauses the thread may stay on the stage, for the next poll (CONTEXT-3). */
PyObject *context_set(Kernel *k, Task *task);
int context_exit(Kernel *k, Task *task, PyObject *context);
int context_quit(Kernel *k);

/* Who is on the stage if nobody is, but the thread has not left it: a word that is no task. */
static inline Task *
context_stayer(const Kernel *k)
{
    return (Task *)(uintptr_t)&k->caches.in_shared_context;
}

static inline bool
context_stays(const Kernel *k)
{
    return k->caches.in_shared_context == context_stayer(k);
}
static inline int
context_leave(Kernel *k)
{
    return context_stays(k) ? context_quit(k) : 0;
}
