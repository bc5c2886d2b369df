/* Asking: how a spawn that needs permission reaches its gate. After ops/gate_spawn.py.
 *
 * Here: a function that needs what is usual, is tried once, and follows tasks that had to ask themselves.
 * Anything else, and whatever is to be refused, goes by the Python way, which finds out again and says so; until the task
 * is spawned nothing is changed here.
 */

#include "python/ops/gate_spawn.h"
#include "python/law/admission/gate.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/ticket.h"
#include "python/law/deferred_error.h"
#include "python/law/spawn.h"
#include "python/law/task.h"
#include "python/module/seam.h"
#include "python/module/seam_names.h"
#include "python/ops/handle.h"

enum { AFTER_FEW = 16 }; /* so many to follow are usual: there is room for them at hand */

/* What a spawn asks for. */
typedef struct SpawnOptions {
    PyObject *name;  /* NULL: that of the function */
    PyObject *after; /* a list or tuple; NULL: none */
    int64_t priority;
    bool by_priority; /* it was stated */
    bool values;      /* some arguments are tasks, in whose place it gets their values */
    Ticket **tickets; /* whom it is to follow, each of them `named` while the spawn is looked at */
    Py_ssize_t n;
    Ticket *few[AFTER_FEW];
    PyObject *demand, *needs; /* needs: NULL for none */
} SpawnOptions;

/* Whether a name can be taken as it is. */
static bool
is_name(PyObject *name)
{
    return PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_GET_LENGTH(name) <= LAW_TEXT_MAX;
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
        } else { /* for all others it is nothing that is usual */
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

/* One more whom it is to follow. `again`: it may be among them already. False: it is no task, of another runtime, has no
 * ticket, or there is more to it. */
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

/* Find the tickets of those whom it is to follow: those that are named, and the tasks among its arguments. */
static bool
read_tasks(SpawnOptions *asked, Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Py_ssize_t named = asked->after == NULL ? 0 : PySequence_Fast_GET_SIZE(asked->after);
    asked->tickets = named + n <= AFTER_FEW ? asked->few : PyMem_New(Ticket *, (size_t)(named + n));
    if (asked->tickets == NULL) {
        return false; /* the Python way finds no memory either, and says so */
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

/* All those have been found: they are not `named` any more. */
static void
forget_names(const SpawnOptions *asked)
{
    for (Py_ssize_t i = 0; i < asked->n; i++) {
        asked->tickets[i]->named = false;
    }
}

/* Whether it is certain that none of those waits for this nursery (GRAPH-1): neither an owner nor one that follows an
 * owner. */
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

/* A task with a ticket, if there is a gate, which it then enters. `work`: its coroutine function and the arguments of that.
 * NULL with an exception set: it was refused. New reference. */
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
            k_defer_error(k); /* it is there, and half of it is known to the gate */
        }
        Py_DECREF(permission);
    }
    return handle;
}

/* The same by a coroutine function of ours that calls the given one: on a thread, or with values in place of tasks. */
static PyObject *
spawn_by(Kernel *k, Nursery *nursery, GateCore *gate, SpawnOptions *asked, PyObject *const *args, Py_ssize_t n,
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

/* The spawn, if it is of the usual kind. */
static PyObject *
ask_for(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, SpawnOptions *asked, bool coroutine)
{
    bool asks = asked->n > 0 || !coroutine; /* else it does only where it must */
    PyObject *by = nursery->gate != NULL ? nursery->gate : asks ? k->gate : NULL;
    GateCore *gate = as_gate_core(k->st, by);
    if ((gate == NULL && (by != NULL || asks)) || (nursery->gate == NULL && asked->by_priority)) {
        return NULL; /* who states a priority asks, unless it is the usual one: Python sees that */
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
                           : spawn_by(k, nursery, gate, asked, args, n, asked->values ? by_values : PY_on_thread);
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
    PyObject *handle = usual ? ask_for(k, nursery, args, n, &asked, coroutine) : NULL;
    if (asked.tickets != asked.few) {
        PyMem_Free(asked.tickets);
    }
    return handle;
}
