/* The context variables of new tasks: the spawner's, as they were at the spawn.
 *
 * A copy of a context is cheap, but an object that the collector follows, and a crowd of tasks that have not begun would
 * hold one each. So tasks that were spawned while the variables were the same share one copy, and each gets its own
 * when it begins. Whether the variables are the same is seen by peeking at the one pointer of a context that changes
 * with every set; that pointer is private to CPython, so its place is tried out when the module is loaded, and where
 * it is not found every spawn makes a copy.
 */

#include "context.h"

#include <string.h>

/* How CPython 3.11 to 3.14 lay out a context, up to the field that is read. */
typedef struct {
    PyObject_HEAD
    PyObject *previous;
    PyObject *variables; /* an immutable mapping: another object after every change */
} Layout;

static PyObject *
variables_of(PyObject *context)
{
    return ((Layout *)(void *)context)->variables;
}

/* Whether `context` has an immutable mapping where it is looked for. */
static bool
has_mapping(PyObject *context)
{
    PyObject *found = (size_t)Py_TYPE(context)->tp_basicsize >= sizeof(Layout) ? variables_of(context) : NULL;
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
    if (failed == 0 && has_mapping(one) && has_mapping(two) && variables_of(one) == variables_of(two)) {
        PyObject *before = variables_of(two);
        failed = set_inside(two);
        *comparable = failed == 0 && variables_of(one) == before && variables_of(two) != before && has_mapping(two);
    }
    Py_XDECREF(one);
    Py_XDECREF(two);
    return failed;
}

int
context_at_spawn(Kernel *k, Task *task)
{
    PyObject *current = PyThreadState_Get()->context;
    if (k->snapshot != NULL && current != NULL && k->st->contexts_comparable
        && variables_of(current) == variables_of(k->snapshot)) {
        task->context = Py_NewRef(k->snapshot);
        task->borrows = 1;
        return 0;
    }
    PyObject *copy = PyContext_CopyCurrent();
    if (copy == NULL) {
        return -1;
    }
    task->context = copy;
    if (k->st->contexts_comparable) {
        task->borrows = 1;
        Py_XSETREF(k->snapshot, Py_NewRef(copy));
    }
    return 0;
}

int
context_of_its_own(Task *task)
{
    PyObject *copy = PyContext_Copy(task->context);
    if (copy == NULL) {
        return -1;
    }
    Py_SETREF(task->context, copy);
    task->borrows = 0;
    return 0;
}
