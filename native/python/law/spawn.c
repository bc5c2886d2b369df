/* Spawning: checks the authority of the spawner, pays, and makes and queues the task. After law/kernel.py.
 *
 * A refused spawn changes nothing: what may fail comes before what changes a record, or is undone. Python methods
 * handle the rare cases (explicit capabilities, a capability with limits).
 */

#include "python/law/spawn.h"
#include "python/cpython/context.h"
#include "python/fast_paths.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_fast.h"
#include "python/law/ledger.h"
#include "python/law/ledger_fast.h"
#include "python/law/pool.h"
#include "python/law/spawn_fast.h"
#include "python/law/spawn_terms.h"
#include "python/law/task.h"
#include "python/module/names_from_python.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* Call a function of the law in Python with the kernel and one or two arguments, for its effect. */
static int
in_python(Kernel *k, PyName method, PyObject *a, PyObject *b)
{
    PyObject *args[] = {(PyObject *)k, a, b};
    PyObject *done = py_call(k->st, method, args, b != NULL ? 3 : 2);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* ---- authority */

/* Every spawn checks a `CapSpawn`. The kernel caches the last valid one without limits (kernel_caches.h), and counts
 * its uses itself. The registry gets the count when Python asks the registry. */
int
k_flush_uses(Kernel *k)
{
    if (k->postponed.uses == 0) {
        return 0;
    }
    int64_t uses = k->postponed.uses;
    PyObject *args[] = {k->registry, k->caches.checked_spawn_cap, PyLong_FromLongLong(uses)};
    PyObject *done = args[2] == NULL ? NULL : py_call(k->st, PY_count_uses, args, 3);
    Py_XDECREF(args[2]);
    if (done == NULL) {
        return -1;
    }
    Py_DECREF(done);
    k->postponed.uses = 0;
    return 0;
}

PyObject *
k_capability(Kernel *k, Task *task, PyObject *kind, const char *operation)
{
    PyObject *held = task->terms->capabilities;
    if (may_hold_checked_cap(k, held)) {
        PyObject *found = PyDict_GetItemWithError(held, kind);
        if (found != NULL && (found == k->caches.checked_spawn_cap || found == k->caches.checked_timer_cap)) {
            return found;
        }
        if (found == NULL && PyErr_Occurred()) {
            return NULL;
        }
    }
    PyObject *what = context_leave(k) < 0 ? NULL : PyUnicode_FromString(operation); /* CONTEXT-3 */
    PyObject *args[] = {(PyObject *)task, held, kind, what};
    PyObject *found = what == NULL ? NULL : py_call(k->st, PY_require, args, 4);
    Py_XDECREF(what);
    if (found != NULL && kind == k->st->CapTimer) {
        Py_XSETREF(k->caches.checked_timer_cap, Py_NewRef(found));
    }
    Py_XDECREF(found); /* the task holds a reference */
    return found;
}

/* The `CapSpawn` with which `spawner` may spawn into `nursery`. *counted: the kernel counts its uses. Borrowed. NULL
 * with an exception set: refused. */
static PyObject *
checked_spawn_cap(Kernel *k, Nursery *nursery, Task *spawner, bool *counted)
{
    if (holds_checked_spawn_cap(k, spawner)) {
        *counted = true;
        return k->caches.checked_spawn_cap;
    }
    PyObject *held = spawner->terms->capabilities;
    PyObject *found = PyDict_CheckExact(held) ? PyDict_GetItemWithError(held, k->st->CapSpawn) : NULL;
    *counted = is_checked_spawn_cap(k, found);
    if (*counted) {
        Py_XSETREF(k->caches.spawn_terms, (SpawnTerms *)Py_NewRef((PyObject *)spawner->terms));
        return found;
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *args[] = {(PyObject *)k, (PyObject *)nursery, (PyObject *)spawner};
    PyObject *cap = py_call(k->st, PY_checked_spawn_cap, args, 3); /* (the capability, whether nothing limits it) */
    if (cap == NULL) {
        return NULL;
    }
    found = PyTuple_GET_ITEM(cap, 0);
    if (FAST_PATHS && PyTuple_GET_ITEM(cap, 1) == Py_True) { /* cache it */
        if (k_flush_uses(k) < 0) {
            Py_DECREF(cap);
            return NULL;
        }
        Py_XSETREF(k->caches.checked_spawn_cap, Py_NewRef(found));
        Py_CLEAR(k->caches.spawn_terms);
        *counted = true;
    }
    Py_DECREF(cap); /* the spawner holds the capability */
    return found;
}

/* The capabilities of a new task: those passed to it, otherwise those that its nursery passes on and its spawner holds.
 * New reference. */
static PyObject *
capabilities_for(Kernel *k, Nursery *nursery, Task *spawner, PyObject *passed, bool acting)
{
    if (acting && spawner != NULL) {
        return Py_NewRef(spawner->terms->capabilities);
    }
    if (passed == NULL) {
        bool hands_on = k->inherit || nursery->explicit_caps;
        if (spawner == NULL || (spawner == nursery->owner && hands_on) ||
            (spawner->terms->capabilities == nursery->capabilities && hands_on)) {
            return Py_NewRef(nursery->capabilities);
        }
    }
    PyObject *args[] = {(PyObject *)k, (PyObject *)nursery, spawner ? (PyObject *)spawner : Py_None,
                        passed ? passed : Py_None};
    return py_call(k->st, PY_capabilities_for, args, 4);
}

/* ---- spawning */

/* The budget of a new task, within the limits of the `CapSpawn` and the defaults of the profile. New reference. */
static PyObject *
budget_for(Kernel *k, PyObject *budget, PyObject *cap, bool counted, Task *spawner, bool acting)
{
    bool limited = cap != NULL && !counted;
    bool by_default = k->default_spawns != Py_None && spawner != NULL && !acting;
    if (!limited && !by_default) {
        return Py_NewRef(budget);
    }
    PyObject *args[] = {(PyObject *)k, budget, cap ? cap : Py_None, by_default ? Py_True : Py_False};
    return py_call(k->st, PY_spawn_budget, args, 4);
}

/* Raise unless the purse can pay for the spawn and has at least one op left for a task that asks for ops. */
static int
check_purse(Kernel *k, Nursery *nursery, PyObject *budget)
{
    int64_t ops = pool_of(nursery->pools, LAW_OPS)->account.left;
    int64_t spawns = pool_of(nursery->pools, LAW_SPAWNS)->account.left;
    if ((ops == LAW_OPEN || ops >= 2) && (spawns == LAW_OPEN || spawns >= 1)) {
        return 0;
    }
    return in_python(k, PY_check_purse, (PyObject *)nursery, budget);
}

/* The terms of a child: those of the last child of this nursery or of any nursery, if they are the same. New
 * reference. */
static SpawnTerms *
spawn_terms_for(Kernel *k, Nursery *nursery, PyObject *pools, PyObject *held, PyObject *cap)
{
    if (are_spawn_terms(nursery->terms, pools, held, cap)) {
        return (SpawnTerms *)Py_NewRef((PyObject *)nursery->terms);
    }
    SpawnTerms *terms = are_spawn_terms(k->caches.last_terms, pools, held, cap)
                            ? (SpawnTerms *)Py_NewRef((PyObject *)k->caches.last_terms)
                            : spawn_terms_new(k->st, pools, held, cap);
    if (terms != NULL) {
        Py_XSETREF(nursery->terms, (SpawnTerms *)Py_NewRef((PyObject *)terms));
        Py_XSETREF(k->caches.last_terms, (SpawnTerms *)Py_NewRef((PyObject *)terms));
    }
    return terms;
}

/* Add a new task to its nursery, and queue it unless it has a ticket. 0, or -1 with an exception set. */
static int
add_to_nursery(Kernel *k, Nursery *nursery, Task *task, PyObject *budget)
{
    nursery_add(k, nursery, task);
    if (NOTED(k, note_spawned(k, task, budget)) < 0) {
        return -1;
    }
    if (task->extra != NULL) { /* a new task has a TaskExtra only if it has a ticket */
        task->since_ns = k->now_ns;
        return 0;
    }
    return k_ready_new(k, task);
}

/* Pay for the spawn, and make the task. Everything was checked before. New reference; NULL with an exception set:
 * nothing has changed. */
static Task *
make_task(Kernel *k, Nursery *nursery, PyObject *name, PyObject **budget, PyObject *held, PyObject *cap, Task *spawner,
          PyObject *ticket)
{
    if (spawner != NULL && task_extra(spawner) == NULL) {
        return NULL; /* without a TaskExtra the payment could not be recorded */
    }
    uint64_t id = k->next_id;
    PyObject *title = name != NULL ? Py_NewRef(name) : PyUnicode_FromFormat("task-%llu", (unsigned long long)id);
    if (title == NULL) {
        return NULL;
    }
    int short_of = pools_pay(nursery->pools, &LAW_SPAWN);
    LAW_RULE(short_of == LAW_PAID, "BUDGET-3");
    PyObject *pools = pools_for(k, nursery->pools, budget);
    SpawnTerms *terms = pools == NULL ? NULL : spawn_terms_for(k, nursery, pools, held, cap);
    Task *task = terms == NULL ? NULL : task_new(k->st, nursery, id, Py_NewRef(title), terms);
    if (task != NULL && ticket != NULL) {
        if (task_extra(task) == NULL) {
            Py_CLEAR(task);
        } else {
            task->extra->ticket = Py_NewRef(ticket);
        }
    }
    if (task == NULL) {
        return_pools(k, pools, nursery->pools);
        pools_refund(nursery->pools, &LAW_SPAWN);
    } else {
        k->next_id = id + 1;
        if (spawner != NULL) {
            k_record_spent(spawner, &LAW_SPAWN);
        }
    }
    Py_XDECREF(pools);
    Py_DECREF(title);
    return task;
}

/* Undo the count of a spawn under a capability, because making the task failed. The exception that is set stays. */
static void
release_spawn(Kernel *k, PyObject *cap)
{
    PyObject *error = taken_error();
    PyObject *none = PyObject_CallMethod(k->registry, "release", "O", cap);
    if (none == NULL) {
        k_defer_error(k);
    }
    Py_XDECREF(none);
    PyErr_SetRaisedException(error);
}

Task *
k_spawn(Kernel *k, Nursery *nursery, PyObject *name, PyObject *budget, PyObject *capabilities, unsigned how,
        Task *spawner, PyObject *ticket)
{
    bool acting = (how & SPAWN_ACTING) != 0, pinned = (how & SPAWN_PINNED) != 0;
    spawner = spawner != NULL ? spawner : k->current;
    if (nursery->state != LAW_NURSERY_OPEN &&
        in_python(k, PY_require_open, (PyObject *)nursery, how & SPAWN_AGAIN ? Py_True : Py_False) < 0) {
        return NULL;
    }
    bool counted = false;
    PyObject *cap = spawner == NULL ? NULL : checked_spawn_cap(k, nursery, spawner, &counted);
    if (spawner != NULL && cap == NULL) {
        return NULL;
    }
    PyObject *held = capabilities_for(k, nursery, spawner, capabilities, acting);
    PyObject *granted = held == NULL ? NULL : budget_for(k, budget, cap, counted, spawner, acting);
    Task *task = NULL;
    if (granted == NULL || check_purse(k, nursery, granted) < 0) {
        goto done;
    }
    if (cap != NULL && !counted) {
        PyObject *args[] = {(PyObject *)k, (PyObject *)nursery, (PyObject *)spawner, cap};
        PyObject *acquired = py_call(k->st, PY_acquire_spawn, args, 4);
        if (acquired == NULL) {
            goto done;
        }
        Py_DECREF(acquired);
    }
    task = make_task(k, nursery, name, &granted, held, cap, spawner, ticket);
    if (task == NULL) {
        if (cap != NULL && !counted) {
            release_spawn(k, cap);
        }
        goto done;
    }
    k->postponed.uses += counted;
    task->pinned = pinned;
    task->worker = pinned ? 0 : -1;
    if (add_to_nursery(k, nursery, task, granted) < 0) {
        Py_CLEAR(task);
    }
done:
    Py_XDECREF(held);
    Py_XDECREF(granted);
    return task;
}
