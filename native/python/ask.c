/* Asking: how a spawn that needs permission reaches its gate. After admission/ask.py.
 *
 * Here: an `async def` function that needs nothing, is tried once, and follows a few tasks that had to ask themselves.
 * Anything else, and whatever is to be refused, goes by the Python way, which finds out again and says so; until the task
 * is spawned nothing is changed here.
 */

#include "gate.h"
#include "handle.h"

enum { AFTER_MAX = 16 }; /* how many it may follow here: each is compared with each */

/* What a spawn asks for. */
typedef struct Asked {
    PyObject *name;           /* NULL: that of the function */
    PyObject *after;          /* a list or tuple; NULL: none */
    int64_t priority;
    bool by_priority;         /* it was stated */
    Permit *permits[AFTER_MAX];
    Py_ssize_t n;
} Asked;

/* Whether a name can be taken as it is. */
static bool
is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_GET_LENGTH(name) <= NAME_MAX_LENGTH;
}

/* Read a priority. False: it is none. */
static bool
read_priority(PyObject *value, int64_t *priority)
{
    int overflow = 0;
    if (!PyLong_Check(value) || PyBool_Check(value)) {
        return false;
    }
    *priority = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 && *priority <= LAW_PRIORITY_MAX && *priority >= -LAW_PRIORITY_MAX;
}

/* Read the keywords. False: there is one that is not for here. */
static bool
read_keywords(Asked *asked, PyObject *const *values, PyObject *keywords)
{
    for (Py_ssize_t i = 0; keywords != NULL && i < PyTuple_GET_SIZE(keywords); i++) {
        PyObject *key = PyTuple_GET_ITEM(keywords, i), *value = values[i];
        bool good = false;
        if (PyUnicode_CompareWithASCIIString(key, "after") == 0) {
            asked->after = value;
            good = PyList_CheckExact(value) || PyTuple_CheckExact(value);
        }
        else if (PyUnicode_CompareWithASCIIString(key, "priority") == 0) {
            asked->by_priority = true;
            good = read_priority(value, &asked->priority);
        }
        else if (PyUnicode_CompareWithASCIIString(key, "name") == 0) {
            asked->name = value == Py_None ? NULL : value;
            good = value == Py_None || is_name(value);
        }
        else { /* for all others it is nothing that is usual */
            const char *const others[] = {"needs", "retry", "budget", "capabilities"};
            for (size_t j = 0; value == Py_None && j < Py_ARRAY_LENGTH(others); j++) {
                good = good || PyUnicode_CompareWithASCIIString(key, others[j]) == 0;
            }
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

/* Find the permits of those whom it is to follow. False: one is no task, of another runtime, named twice, has no permit, or
 * there is more to it. */
static bool
read_after(Asked *asked, Kernel *k)
{
    Py_ssize_t n = asked->after == NULL ? 0 : PySequence_Fast_GET_SIZE(asked->after);
    PyObject **items = n == 0 ? NULL : PySequence_Fast_ITEMS(asked->after);
    if (n > AFTER_MAX) {
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Handle *handle = (Handle *)items[i];
        if (Py_TYPE(handle) != k->st->TaskHandle || handle->kernel != k || handle->record == NULL
            || (asked->permits[i] = plain_permit(k->st, (Task *)handle->record)) == NULL) {
            return false;
        }
        for (Py_ssize_t j = 0; j < i; j++) {
            if (asked->permits[j] == asked->permits[i]) {
                return false;
            }
        }
    }
    asked->n = n;
    return true;
}

/* Whether it is certain that none of those waits for this nursery (A4): neither an owner nor one that follows an owner. */
static bool
no_cycle(const Asked *asked, const Nursery *nursery)
{
    for (const Task *owner = nursery->owner; asked->n > 0 && owner != NULL; owner = owner->nursery->owner) {
        PyObject *permit = owner->more != NULL ? owner->more->permit : NULL;
        for (Py_ssize_t i = 0; i < asked->n; i++) {
            if ((PyObject *)asked->permits[i] == permit) {
                return false;
            }
        }
        Permit *plain = plain_permit(task_kernel(owner)->st, owner);
        if (permit != NULL && (plain == NULL || plain->successors != NULL)) {
            return false;
        }
    }
    return true;
}

/* A task with a permit, which then enters the gate. NULL with an exception set: it was refused. New reference. */
static PyObject *
spawn(Kernel *k, Nursery *nursery, Turnstile *gate, Asked *asked, PyObject *const *args, Py_ssize_t n)
{
    PyObject *name = asked->name != NULL ? asked->name : ((PyFunctionObject *)args[0])->func_qualname;
    PyObject *handle = task_handle_new(k, NULL); /* first: a spawn that is refused leaves nothing behind */
    Permit *permit = handle == NULL || gate == NULL ? NULL : permit_new(k->st, gate, asked->priority);
    Task *task = PyErr_Occurred() ? NULL : k_spawn(k, nursery, name, k->st->UNSTATED, NULL, 0, NULL, (PyObject *)permit);
    if (task == NULL) {
        Py_XDECREF((PyObject *)permit);
        Py_XDECREF(handle);
        return NULL;
    }
    ((Handle *)handle)->record = (PyObject *)task;
    handle_give_work(k, task, args, n);
    if (permit != NULL) {
        permit->task = Py_NewRef((PyObject *)task);
        if (gate_enter(k, permit, asked->permits, asked->n) < 0) {
            k_doom(k); /* it is there, and half of it is known to the gate */
        }
        Py_DECREF((PyObject *)permit);
    }
    return handle;
}

PyObject *
ask_plainly(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    Asked asked = {.priority = LAW_PRIORITY_NORMAL};
    if (!read_keywords(&asked, args + n, keywords) || !read_after(&asked, k) || !no_cycle(&asked, nursery)) {
        return NULL;
    }
    PyObject *by = nursery->gate != NULL ? nursery->gate : asked.n > 0 ? k->gate : NULL; /* else nobody has to ask */
    Turnstile *gate = as_turnstile(k->st, by);
    if ((by != NULL && gate == NULL) || (nursery->gate == NULL && asked.by_priority)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < asked.n; i++) {
        Py_INCREF((PyObject *)asked.permits[i]); /* R3 */
    }
    PyObject *handle = spawn(k, nursery, gate, &asked, args, n);
    for (Py_ssize_t i = 0; i < asked.n; i++) {
        Py_DECREF((PyObject *)asked.permits[i]);
    }
    return handle;
}
