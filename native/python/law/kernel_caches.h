/* The caches of a kernel, and the work that it postpones. Neither is part of the state of the law.
 *
 * A cache holds the last result of a check that the law makes again and again. Each user compares the new input with
 * the cached input, by the identity of immutable objects, and makes the check if they differ. So dropping a cache costs
 * time and changes no decision: a build without fast paths (fast_paths.h) never reads one.
 *
 * Postponed work is not a cache. The law has decided it, and C must carry it out before any code could notice that it
 * is missing. So postponed work is never dropped.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef struct Task Task;
typedef struct SpawnTerms SpawnTerms;
typedef struct Kernel Kernel;

/* All references are owned, unless a comment says otherwise. NULL: nothing is cached. */
typedef struct KernelCaches {
    /* spawn.c, nursery_ops.c: a spawn uses the first two only while no capability is revoked */
    PyObject *checked_spawn_cap;      /* the last valid CapSpawn for which neither it nor its origins state a limit */
    SpawnTerms *spawn_terms;          /* the terms of the last spawner that held it */
    SpawnTerms *last_terms;           /* the terms of the last child that was spawned */
    PyObject *inherited_capabilities; /* the last mapping that a nursery inherited unchanged */
    /* context.c */
    PyObject *snapshot;       /* the context that the last spawned task began with */
    PyObject *shared_context; /* the context in which tasks that set no variable run, one at a time */
    Task *in_shared_context;  /* borrowed: the task that runs in it; see also `context_stays` */
    /* cancel.c */
    PyObject *cancel_args;  /* the args of the last Cancelled that was made: a tuple with the reason */
    PyObject *cancel_spare; /* a Cancelled with these args, to be thrown again; no other reference to it exists */
    /* spawn.c: `k_capability` */
    PyObject *checked_timer_cap; /* the last valid CapTimer */
    /* threads/job.c */
    PyObject *threads;        /* the thread pool of the last plain function */
    SpawnTerms *thread_terms; /* the terms of the task that was allowed to run it */
    PyObject *thread_code;    /* the code of that function */
    PyObject *thread_notes;   /* the annotations of that function */
} KernelCaches;

typedef struct Postponed {
    int64_t uses;         /* spawns minus ends under `checked_spawn_cap` that the registry lacks: `k_flush_uses` */
    Task *promised;       /* owned: the task whose cleanup timer is promised (CLEANUP-1 in cleanup.c); or NULL */
    uint64_t promised_id; /* the id of that timer */
    int64_t promised_ns;  /* the deadline of that timer */
} Postponed;

int caches_visit(KernelCaches *caches, visitproc visit, void *arg); /* for the tp_traverse of the kernel */
void caches_clear(KernelCaches *caches);                            /* drop every cache; no decision changes */
