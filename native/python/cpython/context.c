/* The context variables of tasks: the spawner's, as they were at the spawn, and whatever the task makes of them.
 *
 * A copy of a context is cheap, but an object that the collector follows, and a crowd of tasks would hold one each. Nearly
 * all of them never set a variable. So tasks that were spawned while the variables were the same share one copy, the
 * *snapshot*, which nobody runs in; they run, one at a time, in another copy of it, the *stage*. Whoever leaves the stage
 * other than it was takes it along, as its own context from then on, and the next one gets a new stage.
 *
 *   CONTEXT-1  the stage has the variables of the snapshot that it was made of whenever no task is on it
 *   CONTEXT-2  nobody but the kernel holds the stage then: a token of `ContextVar.set` does, and is good for one
 *       context only, even if it was for a value that the variable had already
 *   CONTEXT-3  between two polls of a batch the thread may stay on the stage, if nothing of the program's runs in
 *       between: after a yield, at the beginning and the end of a nursery's block, and where a task ended that nobody
 *       hears of (`is_quiet` in resume.h). It has left when the batch is over, and before Python is called on the way,
 *       our own law included: a frame is where signals are handled, garbage is collected, and whoever traces or
 *       profiles looks in
 *
 * Whether the variables are the same is seen by peeking at the one pointer of a context that changes with every set; that
 * pointer is private to CPython, so its place is tried out when the module is loaded, and where it is not found, or the
 * build must not look (BURSAR_PRIVATE_LAYOUTS), every spawn makes a copy.
 *
 * Rejected: a copy for every task when it begins. It is a tenth of what a short task costs, and a quarter of the memory
 * of one that waits.
 */

#include "python/cpython/context.h"
#include "python/fast_paths.h"
#include "python/law/task.h"

#include <string.h>

#if BURSAR_PRIVATE_LAYOUTS

/* Whether `context` has an immutable mapping where it is looked for. */
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

/* Make a stage for the task, or give it a context of its own if it is a straggler: the snapshot is another one by now,
 * and a stage for each of the two in turn would be a copy at every poll. */
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

/* A poll begins that does not find the thread on its stage. */
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
            context_of_its_own(task); /* it takes this one, which cannot fail */
        } else if (!same) {
            Py_CLEAR(k->caches.shared_context); /* it was given another meanwhile */
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
