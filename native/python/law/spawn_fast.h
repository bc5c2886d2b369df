/* Spawning, the fast path: a spawn without options. The slow twin is `k_spawn` in spawn.c.
 *
 * Nearly every spawn is like the one before it: the spawner holds the capabilities of the nursery, its `CapSpawn` has
 * no limits and is in the cache, and the spawn states nothing. Then the task gets the terms of the last child. The
 * condition compares the same fields that `k_spawn` would read. So nothing must be invalidated when a capability is
 * revoked or replaced.
 */

#pragma once

#include "python/law/dispatch_fast.h"
#include "python/law/ledger_fast.h"
#include "python/law/spawn.h"

/* ---- the checks whose result is cached */

/* Whether the task holds the CapSpawn that was checked last. */
static inline bool
holds_checked_spawn_cap(const Kernel *k, const Task *task)
{
    return FAST_PATHS && task->terms == k->caches.spawn_terms && PySet_GET_SIZE(k->revoked) == 0;
}

/* Whether this is the CapSpawn that was checked last. `found` may be NULL. */
static inline bool
is_checked_spawn_cap(const Kernel *k, const PyObject *found)
{
    return FAST_PATHS && found != NULL && found == k->caches.checked_spawn_cap && PySet_GET_SIZE(k->revoked) == 0;
}

/* Whether `held` may contain a cached capability. No cached capability is used while any capability is revoked. */
static inline bool
may_hold_checked_cap(const Kernel *k, const PyObject *held)
{
    return FAST_PATHS && PyDict_CheckExact(held) && PySet_GET_SIZE(k->revoked) == 0;
}

/* Whether `terms`, which may be NULL, has exactly these fields. */
static inline bool
are_spawn_terms(const SpawnTerms *terms, const PyObject *pools, const PyObject *held, const PyObject *cap)
{
    return FAST_PATHS && terms != NULL && terms->pools == pools && terms->capabilities == held &&
           terms->spawn_cap == cap;
}

/* ---- the spawn */

/* A PENDING task, in no list yet. Steals the references to `name` and `terms`. New reference, or NULL with MemoryError
 * set. */
static inline Task *
task_new(ModuleState *st, Nursery *nursery, uint64_t id, PyObject *name, SpawnTerms *terms)
{
    Task *self = (Task *)free_make_sized(&st->free_tasks, st->Task, sizeof(Task));
    if (self == NULL) {
        Py_DECREF(name);
        Py_DECREF((PyObject *)terms);
        return NULL;
    }
    self->nursery = (Nursery *)Py_NewRef((PyObject *)nursery);
    self->id = id;
    self->name = name;
    self->terms = terms;
    self->worker = -1;
    return self; /* untracked: its nursery visits what it refers to (RECORD-4) */
}

/* Add a new task to the children of its nursery, and count it (NURSERY-1, KERNEL-1). */
static inline void
nursery_add(Kernel *k, Nursery *nursery, Task *task)
{
    law_queue_append(&nursery->children, &task->sibling);
    Py_INCREF(task); /* RECORD-1 */
    nursery->spawned += 1;
    k->live += 1;
    k->spawned += 1;
}

/* Whether a spawn without options gets the terms of the last child, and there is no observer. */
static inline bool
is_plain_spawn(const Kernel *k, const Nursery *nursery, const Task *spawner)
{
    const SpawnTerms *own = spawner->terms, *terms = nursery->terms;
    return FAST_PATHS && k->observer == NULL && k->at != NULL && nursery->state == LAW_NURSERY_OPEN &&
           own == k->caches.spawn_terms && PySet_GET_SIZE(k->revoked) == 0 /* see `checked_spawn_cap` */
           && k->inherit && own->capabilities == nursery->capabilities     /* `capabilities_for` */
           && k->default_spawns == Py_None                                 /* `budget_for` */
           && terms != NULL && terms->pools == nursery->pools              /* `spawn_terms_for` */
           && terms->capabilities == own->capabilities && terms->spawn_cap == k->caches.checked_spawn_cap;
}

/* Charge a spawn to a nursery's purse, and record it in the running task. False, and nothing charged: the purse is
 * nearly empty, or a count could saturate. */
static inline bool
pay_spawn_fast(PyObject *purse, Task *spawner)
{
    enum { LEFT = LAW_SPAWN_COSTS_OPS + 1 }; /* with fewer ops in the purse `check_purse` decides */
    LawPool *ops = &pool_of(purse, LAW_OPS)->account, *spawns = &pool_of(purse, LAW_SPAWNS)->account;
    TaskExtra *extra = spawner->extra;
    if (extra == NULL || spawner->state != LAW_STATE_RUNNING || spawner->turn_left == INT32_MIN ||
        !affords(ops, spawner->ops_spent, LEFT) || !affords(spawns, extra->spent[LAW_SPAWNS], LAW_SPAWN_COSTS_SPAWNS)) {
        return false;
    }
    pay(ops, &spawner->ops_spent, LAW_SPAWN_COSTS_OPS);
    pay(spawns, &extra->spent[LAW_SPAWNS], LAW_SPAWN_COSTS_SPAWNS);
    spawner->turn_left -= LAW_SPAWN_COSTS_OPS;
    return true;
}

/* Undo `pay_spawn_fast`. */
COLD static void
refund_spawn(PyObject *purse, Task *spawner)
{
    pools_refund(purse, &LAW_SPAWN);
    spawner->ops_spent -= LAW_SPAWN_COSTS_OPS;
    spawner->extra->spent[LAW_SPAWNS] -= LAW_SPAWN_COSTS_SPAWNS;
    spawner->turn_left += LAW_SPAWN_COSTS_OPS;
}

/* The running task spawns without options. New reference. NULL with an exception set: nothing has changed. */
static inline Task *
k_spawn_fast(Kernel *k, Nursery *nursery, PyObject *name)
{
    Task *spawner = k->current;
    if (!LIKELY(is_plain_spawn(k, nursery, spawner) && pay_spawn_fast(nursery->pools, spawner))) {
        return k_spawn(k, nursery, name, k->st->UNSTATED, NULL, 0, NULL, NULL);
    }
    SpawnTerms *terms = (SpawnTerms *)Py_NewRef((PyObject *)nursery->terms);
    Task *task = task_new(k->st, nursery, k->next_id, Py_NewRef(name), terms);
    if (task == NULL) {
        refund_spawn(nursery->pools, spawner);
        return NULL;
    }
    k->next_id += 1;
    k->postponed.uses += 1;
    nursery_add(k, nursery, task);
    k_ready_fast(k, task, LAW_STATE_PENDING);
    return task;
}
