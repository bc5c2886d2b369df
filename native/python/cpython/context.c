/* The context variables of tasks: a copy of the spawner's variables at the spawn, with the task's own changes.
 *
 * A copy of a context is cheap, but it is an object that the collector follows, and each of many tasks would hold one. Almost
 * no task sets a variable. So tasks that were spawned with the same variables share one copy, the *snapshot*, in which no
 * code runs. They run, one at a time, in another copy of it, the *shared context*. A task that changes the shared context
 * keeps it as its own context, and the next task gets a new shared context.
 *
 *   CONTEXT-1  while no task runs in the shared context, it has the variables of the snapshot that it was copied from
 *   CONTEXT-2  while no task runs in the shared context, only the kernel holds it. A token of `ContextVar.set` would hold it
 *       too, and is valid for one context only, even if the value did not change
 *   CONTEXT-3  between two polls of a batch, the thread may stay in the shared context if no code of the program runs in
 *       between: after a yield, at the beginning and the end of a nursery's block, and after the end of a task that no other
 *       code observes (`is_quiet` in resume.h). The thread leaves it at the end of the batch, and before any call of Python,
 *       also of Bursar's own: in a Python frame signals are handled, garbage is collected, and tracers and profilers run
 *
 * One pointer in a context changes with every set of a variable. Two contexts with the same pointer have the same variables.
 * The pointer's place is private to CPython, so `context_try` tests it when the module is loaded. If the test fails, or the
 * build may not use it (BURSAR_PRIVATE_LAYOUTS), every spawn makes a copy.
 *
 * Rejected: a copy for every task when it begins. The copy is a tenth of the cost of a short task, and a quarter of the
 * memory of a task that waits.
 */

#include "python/cpython/context.h"
#include "python/fast_paths.h"
#include "python/law/task.h"

#include <string.h>

#if BURSAR_PRIVATE_LAYOUTS

/* Whether `context` has its immutable mapping at the expected place. */
static bool
has_mapping(PyObject *context)
{
    PyObject *found = (size_t)Py_TYPE(context)->tp_basicsize >= sizeof(ContextLayout) ? variables_of(context) : NULL;
    return found != NULL && strcmp(Py_TYPE(found)->tp_name, "hamt") == 0;
}

/* Set a variable inside `context`. 0, or -1 with an exception set. */
static int
set_inside(PyObject *context)
{
    PyObject *variable = PyContextVar_New("bursar", NULL), *token = NULL;
    if (variable != NULL && PyContext_Enter(context) == 0) {
        token = PyContextVar_Set(variable, Py_True);
        if (PyContext_Exit(context) < 0) {
            Py_CLEAR(token);
        }
    }
    Py_XDECREF(variable);
    Py_XDECREF(token);
    return token == NULL ? -1 : 0;
}

int
context_try(bool *comparable)
{
    PyObject *one = PyContext_New(), *two = one == NULL ? NULL : PyContext_Copy(one);
    int failed = two == NULL ? -1 : 0;
    *comparable = false;
    if (FAST_PATHS && failed == 0 && has_mapping(one) && has_mapping(two) && variables_of(one) == variables_of(two)) {
        PyObject *before = variables_of(two);
        failed = set_inside(two);
        *comparable = failed == 0 && variables_of(one) == before && variables_of(two) != before && has_mapping(two);
    }
    Py_XDECREF(one);
    Py_XDECREF(two);
    return failed;
}

#else

int
context_try(bool *comparable)
{
    *comparable = false;
    return 0;
}

#endif

int
context_copied(Kernel *k, Task *task)
{
    PyObject *copy = PyContext_CopyCurrent();
    if (copy == NULL) {
        return -1;
    }
    task->context = copy;
    if (k->st->contexts_comparable) {
        task->borrows = 1;
        Py_XSETREF(k->caches.snapshot, Py_NewRef(copy));
    }
    return 0;
}

int
context_of_its_own(Task *task)
{
    Kernel *k = task_kernel(task);
    PyObject *own =
        k->caches.in_shared_context == task ? Py_NewRef(k->caches.shared_context) : PyContext_Copy(task->context);
    if (own == NULL) {
        return -1;
    }
    if (k->caches.in_shared_context == task) {
        Py_CLEAR(k->caches.shared_context);
        k->caches.in_shared_context = NULL;
    }
    Py_SETREF(task->context, own);
    task->borrows = 0;
    return 0;
}

/* Make a shared context for the task. If the task has an older snapshot than the kernel, give it its own context instead:
 * shared contexts for two snapshots in turn would need a copy at every poll. */
COLD static int
set_shared_context(Kernel *k, Task *task)
{
    if (task->context != k->caches.snapshot) {
        return context_of_its_own(task);
    }
    PyObject *shared_context = PyContext_Copy(task->context);
    if (shared_context == NULL) {
        return -1;
    }
    Py_XSETREF(k->caches.shared_context, shared_context);
    return 0;
}

/* A poll begins, and the thread is not in the task's context yet. */
PyObject *
context_set(Kernel *k, Task *task)
{
    if (context_leave(k) < 0) {
        return NULL;
    }
    if (task->borrows &&
        (k->caches.shared_context == NULL || !have_same_variables(k->caches.shared_context, task->context)) &&
        set_shared_context(k, task) < 0) {
        return NULL;
    }
    PyObject *context = Py_NewRef(task->borrows ? k->caches.shared_context : task->context);
    if (PyContext_Enter(context) < 0) {
        Py_DECREF(context);
        return NULL;
    }
    k->caches.in_shared_context = task->borrows ? task : NULL;
    return context;
}

int
context_exit(Kernel *k, Task *task, PyObject *context)
{
    int failed = PyContext_Exit(context);
    if (k->caches.in_shared_context == task) {
        bool same = task->borrows && have_same_variables(context, task->context); /* CONTEXT-1 */
        bool ours = Py_REFCNT(context) == 2; /* CONTEXT-2: the kernel and the caller hold it */
        if (task->borrows && !(same && ours && failed == 0)) {
            context_of_its_own(task); /* the task keeps the shared context, which cannot fail */
        } else if (!same) {
            Py_CLEAR(k->caches.shared_context); /* the task got its own context during the poll */
        }
        k->caches.in_shared_context = NULL;
    }
    Py_DECREF(context);
    return failed;
}

int
context_quit(Kernel *k)
{
    k->caches.in_shared_context = NULL;
    return PyContext_Exit(k->caches.shared_context);
}
