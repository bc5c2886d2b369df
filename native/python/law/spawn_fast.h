/* Spawning, the fast path: a default spawn, inlined into the spawner. The slow twin is `k_spawn` in spawn.c.
 *
 * Nearly every task is spawned like the one before it: the spawner holds what the nursery hands on, its `CapSpawn` has no limits
 * and was checked a moment ago, and the task asks for nothing of its own. Then it gets the terms of the last child.
 * The condition compares the very fields that `k_spawn` would read. So there is nothing to invalidate when a capability is
 * revoked or replaced.
 */

#pragma once

#include "python/law/dispatch_fast.h"
#include "python/law/ledger_fast.h"
#include "python/law/spawn.h"

/* A task in PENDING, in no list yet; `name` and `terms` are given away. New reference, or NULL with MemoryError set. */
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
    return self; /* while it lives the collector sees it as a part of its nursery (RECORD-4) */
}

/* A new task is a child of its nursery from here on, and counted (NURSERY-1, KERNEL-1). */
static inline void
nursery_adopt(Kernel *k, Nursery *nursery, Task *task)
{
    law_queue_append(&nursery->children, &task->sibling);
    Py_INCREF(task); /* RECORD-1 */
    nursery->spawned += 1;
    k->live += 1;
    k->spawned += 1;
}

/* True if a default spawn reuses the previous child's terms and no observer is attached. */
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

/* Charge a spawn to a nursery's purse, and book it on the running task. False: it cannot be paid as a matter of course, or a
 * count would saturate, and nothing was charged. */
static inline bool
spawn_paid(PyObject *purse, Task *spawner)
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

/* Take all that back. */
COLD static void
spawn_unpaid(PyObject *purse, Task *spawner)
{
    pools_refund(purse, &LAW_SPAWN);
    spawner->ops_spent -= LAW_SPAWN_COSTS_OPS;
    spawner->extra->spent[LAW_SPAWNS] -= LAW_SPAWN_COSTS_SPAWNS;
    spawner->turn_left += LAW_SPAWN_COSTS_OPS;
}

/* A task for the running one, with no wishes of its own. New reference. NULL with an exception set: nothing has changed. */
static inline Task *
k_spawn_fast(Kernel *k, Nursery *nursery, PyObject *name)
{
    Task *spawner = k->current;
    if (!LIKELY(is_plain_spawn(k, nursery, spawner) && spawn_paid(nursery->pools, spawner))) {
        return k_spawn(k, nursery, name, k->st->UNSTATED, NULL, 0, NULL, NULL);
    }
    SpawnTerms *terms = (SpawnTerms *)Py_NewRef((PyObject *)nursery->terms);
    Task *task = task_new(k->st, nursery, k->next_id, Py_NewRef(name), terms);
    if (task == NULL) {
        spawn_unpaid(nursery->pools, spawner);
        return NULL;
    }
    k->next_id += 1;
    k->postponed.uses += 1;
    nursery_adopt(k, nursery, task);
    k_ready_fast(k, task, LAW_STATE_PENDING);
    return task;
}
