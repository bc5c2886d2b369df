/* A spawn that needs permission: from its keywords to a task with a ticket at its gate. After ops/gate_spawn.py.
 *
 * This is the usual spawn: it states no needs and no retries, and follows only tasks that have tickets themselves.
 * Every other spawn, and every spawn that is refused, goes to the function in Python, which checks again and raises the
 * error. Until the task is spawned, nothing is changed here.
 */

#include "python/ops/gate_spawn.h"
#include "python/law/admission/gate.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/ticket.h"
#include "python/law/admission/ticket_fast.h"
#include "python/law/deferred_error.h"
#include "python/law/spawn.h"
#include "python/law/task.h"
#include "python/module/names_from_python.h"
#include "python/module/seam.h"
#include "python/ops/handle.h"

enum { AFTER_FEW = 16 }; /* up to so many dependencies need no allocation */

/* What a spawn asks for. */
typedef struct SpawnOptions {
    PyObject *name;  /* NULL: the name of the function */
    PyObject *after; /* a list or tuple; NULL: none */
    int64_t priority;
    bool by_priority; /* a priority was stated */
    bool values;      /* some arguments are tasks: the function gets their values */
    Ticket **tickets; /* its dependencies; `named` is set in each while the spawn is checked */
    Py_ssize_t n;
    Ticket *few[AFTER_FEW];
    PyObject *demand, *needs; /* needs: NULL for none */
} SpawnOptions;

/* Whether a name needs no change. */
static bool
is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_GET_LENGTH(name) <= LAW_TEXT_MAX;
}

/* Read a priority. False: the value is no priority. */
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

/* Read the keywords. False: one of them must be handled in Python. */
static bool
read_keywords(SpawnOptions *asked, PyObject *const *values, PyObject *keywords)
{
    for (Py_ssize_t i = 0; keywords != NULL && i < PyTuple_GET_SIZE(keywords); i++) {
        PyObject *key = PyTuple_GET_ITEM(keywords, i), *value = values[i];
        bool good = false;
        if (PyUnicode_CompareWithASCIIString(key, "after") == 0) {
            asked->after = value;
            good = PyList_CheckExact(value) || PyTuple_CheckExact(value);
        } else if (PyUnicode_CompareWithASCIIString(key, "priority") == 0) {
            asked->by_priority = true;
            good = read_priority(value, &asked->priority);
        } else if (PyUnicode_CompareWithASCIIString(key, "name") == 0) {
            asked->name = value == Py_None ? NULL : value;
            good = value == Py_None || is_name(value);
        } else { /* the others are usually None */
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

/* Add a dependency. `again`: it may have been added before. False: it is no task of this runtime with a plain
 * ticket. */
static bool
add_task(SpawnOptions *asked, Kernel *k, PyObject *thing, bool again)
{
    Handle *handle = (Handle *)thing;
    Ticket *ticket = Py_TYPE(handle) == k->st->TaskHandle && handle->kernel == k && handle->record != NULL
                         ? plain_ticket(k->st, (Task *)handle->record)
                         : NULL;
    if (ticket == NULL || ticket->named) {
        return ticket != NULL && again;
    }
    ticket->named = true;
    asked->tickets[asked->n++] = ticket;
    return true;
}

/* Find the tickets of the dependencies: the tasks in `after`, and the tasks among the arguments. */
static bool
read_tasks(SpawnOptions *asked, Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Py_ssize_t named = asked->after == NULL ? 0 : PySequence_Fast_GET_SIZE(asked->after);
    asked->tickets = named + n <= AFTER_FEW ? asked->few : PyMem_New(Ticket *, (size_t)(named + n));
    if (asked->tickets == NULL) {
        return false; /* the function in Python finds no memory either, and raises */
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (!add_task(asked, k, PySequence_Fast_ITEMS(asked->after)[i], false)) {
            return false;
        }
    }
    for (Py_ssize_t i = 1; i < n; i++) {
        if (PyObject_TypeCheck(args[i], k->st->TaskHandle)) {
            asked->values = true;
            if (!add_task(asked, k, args[i], true)) {
                return false;
            }
        }
    }
    return true;
}

/* Clear `named` in all dependencies. */
static void
forget_names(const SpawnOptions *asked)
{
    for (Py_ssize_t i = 0; i < asked->n; i++) {
        asked->tickets[i]->named = false;
    }
}

/* Whether surely no dependency waits for this nursery (GRAPH-1): no dependency is an owner of it, directly or
 * through other nurseries, and no task follows such an owner. */
static bool
no_cycle(const SpawnOptions *asked, const Nursery *nursery)
{
    for (const Task *owner = nursery->owner; asked->n > 0 && owner != NULL; owner = owner->nursery->owner) {
        PyObject *ticket = owner->extra != NULL ? owner->extra->ticket : NULL;
        const Ticket *plain = plain_ticket(task_kernel(owner)->st, owner);
        if (ticket != NULL && (plain == NULL || plain->named || plain->successors.n > 0)) {
            return false;
        }
    }
    return true;
}

/* Spawn the task. If there is a gate, the task gets a ticket and enters the gate. `work`: the coroutine function and
 * its arguments. New reference to a handle. NULL with an exception set: the spawn was refused. */
static PyObject *
spawn(Kernel *k, Nursery *nursery, GateCore *gate, SpawnOptions *asked, PyObject *const *work, Py_ssize_t n)
{
    PyObject *handle = task_handle_new(k); /* first: a spawn that is refused leaves nothing behind */
    Ticket *ticket =
        handle == NULL || gate == NULL ? NULL : ticket_new(k->st, gate, asked->priority, asked->demand, asked->needs);
    PyObject *permission = (PyObject *)ticket;
    Task *task = PyErr_Occurred() ? NULL : k_spawn(k, nursery, asked->name, k->st->UNSTATED, NULL, 0, NULL, permission);
    if (task == NULL) {
        Py_XDECREF(permission);
        Py_XDECREF(handle);
        return NULL;
    }
    ((Handle *)handle)->record = (PyObject *)task;
    handle_give_work(k, task, work, n);
    if (ticket != NULL) {
        ticket->task = Py_NewRef((PyObject *)task);
        if (gate_enter(k, ticket, asked->tickets, asked->n) < 0) {
            k_defer_error(k); /* the task exists, and the gate knows a part of it */
        }
        Py_DECREF(permission);
    }
    return handle;
}

/* The same with a coroutine function of Bursar that calls the given function: on a thread, or with values instead of
 * tasks. */
static PyObject *
spawn_through(Kernel *k, Nursery *nursery, GateCore *gate, SpawnOptions *asked, PyObject *const *args, Py_ssize_t n,
              PyName by)
{
    PyObject *work[] = {py_require(k->st, by), args[0], PyTuple_New(n - 1)};
    if (work[0] == NULL || work[2] == NULL) {
        Py_XDECREF(work[2]);
        return NULL;
    }
    for (Py_ssize_t i = 1; i < n; i++) {
        PyTuple_SET_ITEM(work[2], i - 1, Py_NewRef(args[i]));
    }
    PyObject *handle = spawn(k, nursery, gate, asked, work, 3);
    Py_DECREF(work[2]);
    return handle;
}

/* Choose the gate and spawn. NULL without an exception: it must be handled in Python, and nothing was done. */
static PyObject *
spawn_at_gate(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, SpawnOptions *asked, bool coroutine)
{
    bool asks = asked->n > 0 || !coroutine; /* otherwise only a gate of its nursery asks it to */
    PyObject *by = nursery->gate != NULL ? nursery->gate : asks ? k->gate : NULL;
    GateCore *gate = as_gate_core(k->st, by);
    if ((gate == NULL && (by != NULL || asks)) || (nursery->gate == NULL && asked->by_priority)) {
        return NULL; /* a spawn that states a priority asks too, unless it is NORMAL: Python decides that */
    }
    for (Py_ssize_t i = 0; i < asked->n; i++) {
        Py_INCREF((PyObject *)asked->tickets[i]); /* RECORD-3 */
    }
    asked->name = asked->name != NULL ? asked->name : ((PyFunctionObject *)args[0])->func_qualname;
    asked->demand = gate == NULL ? NULL : coroutine ? gate->least : PyTuple_GET_ITEM(gate->thread, 0);
    asked->needs = coroutine ? NULL : PyTuple_GET_ITEM(gate->thread, 1);
    PyName by_values = coroutine ? PY_with_values : PY_on_thread_with_values;
    PyObject *handle = coroutine && !asked->values
                           ? spawn(k, nursery, gate, asked, args, n)
                           : spawn_through(k, nursery, gate, asked, args, n, asked->values ? by_values : PY_on_thread);
    for (Py_ssize_t i = 0; i < asked->n; i++) {
        Py_DECREF((PyObject *)asked->tickets[i]);
    }
    return handle;
}

PyObject *
ask_fast(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords, bool coroutine)
{
    SpawnOptions asked = {.priority = LAW_PRIORITY_NORMAL};
    if (!read_keywords(&asked, args + n, keywords)) {
        return NULL;
    }
    bool usual = read_tasks(&asked, k, args, n) && no_cycle(&asked, nursery);
    forget_names(&asked);
    PyObject *handle = usual ? spawn_at_gate(k, nursery, args, n, &asked, coroutine) : NULL;
    if (asked.tickets != asked.few) {
        PyMem_Free(asked.tickets);
    }
    return handle;
}
