/* The context variables of tasks (context.c). The fast paths are in context_fast.h.
 *
 * handle.c gives a new task its context; drive/resume.h enters and leaves it around each poll. All functions that return int
 * return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

int context_try(bool *comparable); /* once: whether `have_same_variables` works in this interpreter */
int context_copied(Kernel *k,
                   Task *task);     /* give a new task a copy, which the next tasks may share as their snapshot */
int context_of_its_own(Task *task); /* give a task that `borrows` a context that only this task uses */

#if BURSAR_PRIVATE_LAYOUTS

/* The layout of a context in CPython 3.11 to 3.14, up to the field that is read. */
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

/* Whether two contexts hold the same variables. Only valid if `contexts_comparable`. */
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

/* Contexts cannot be compared: every task has its own copy, and no task borrows. */
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

/* Around a poll. `context_set` enters the task's context and returns it, a new reference, or NULL with an exception set.
 * `context_exit`, or `context_pause` in context_fast.h, takes it back. After `context_pause` the thread may still be in the
 * shared context, for the next poll (CONTEXT-3); `context_leave` then leaves it. */
PyObject *context_set(Kernel *k, Task *task);
int context_exit(Kernel *k, Task *task, PyObject *context);
int context_quit(Kernel *k);

/* The value of `in_shared_context` while the thread is in the shared context and no task runs: an address that is no task. */
static inline Task *
shared_context_idle(const Kernel *k)
{
    return (Task *)(uintptr_t)&k->caches.in_shared_context;
}

static inline bool
context_stays(const Kernel *k)
{
    return k->caches.in_shared_context == shared_context_idle(k);
}

static inline int
context_leave(Kernel *k)
{
    return context_stays(k) ? context_quit(k) : 0;
}
