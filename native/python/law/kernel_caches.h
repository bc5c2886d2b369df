/* What a kernel remembers to save work, apart from the state of the law.
 *
 * A cache holds the last answer to a question that the law asks again and again. Each user compares the question with the
 * one that was answered, by the identity of immutable objects, and asks the law if they differ. So a cache that is dropped
 * costs time and changes no decision: a build without fast paths (fast_paths.h) never reads one.
 *
 * Postponed work is not a cache. The law has decided it, and it must be carried out before anything could see that it is
 * missing. So it is never dropped, only settled.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef struct Task Task;
typedef struct SpawnTerms SpawnTerms;
typedef struct Kernel Kernel;

/* All references are owned and may be NULL: nothing is remembered. */
typedef struct KernelCaches {
    /* spawn.c, nursery_ops.c: not read while any capability is revoked */
    PyObject
        *checked_spawn_cap;  /* the CapSpawn that was found good last, without limits of its own or of its origins */
    SpawnTerms *spawn_terms; /* the terms of the spawner that held it */
    SpawnTerms *last_terms;  /* the terms of the last child that was spawned */
    PyObject *inherited_capabilities; /* the mapping of capabilities that a nursery last took over whole */
    /* context.c */
    PyObject *snapshot;       /* the context that the last spawned task began with */
    PyObject *shared_context; /* the context in which tasks that share one run */
    Task *in_shared_context;  /* borrowed: the task that runs in it; see also `context_stays` */
    /* cancel.c */
    PyObject *cancel_args;  /* the tuple with the reason of the last Cancelled that was made */
    PyObject *cancel_spare; /* a Cancelled with these arguments that has only this reference */
    /* spawn.c: `k_capability` */
    PyObject *checked_timer_cap; /* the CapTimer that was found good last */
    /* threads/job.c */
    PyObject *threads;        /* the pool that the last plain function was handed to */
    SpawnTerms *thread_terms; /* the terms under which that was allowed */
    PyObject *thread_code;    /* the code of that function */
    PyObject *thread_notes;   /* its annotations */
} KernelCaches;

typedef struct Postponed {
    int64_t uses; /* spawns less ends under `checked_spawn_cap` that the registry does not count yet: `k_flush_uses` */
    Task *promised;       /* owned: the task whose cleanup timer is promised, or NULL: `cleanup_keep` in cleanup.c */
    uint64_t promised_id; /* the id of that timer, */
    int64_t promised_ns;  /* and its deadline */
} Postponed;

int caches_visit(KernelCaches *caches, visitproc visit, void *arg); /* for the traversal of the kernel */
void caches_clear(KernelCaches *caches);                            /* forget everything; no decision changes */
