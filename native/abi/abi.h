/* What the files of the C interface share: who calls, and what a handle means.
 *
 *     handle = epoch << 60 | kind << 56 | generation (24 bits) << 32 | index
 *
 * A handle is looked up, never followed: index and generation lead to a record that still is what was meant, or to nothing
 * (engine/slab.h). The epoch is that of the runtime: handles of one that was shut down mean nothing to the next.
 *
 * ABI-1  thread-local storage is in janus_rt.c only, and is read there in functions that are not inlined: a task may go
 *     on on another thread after any call that could wait, and compilers remember addresses
 * ABI-2  on a task everything that is "current" belongs to the task; thread-local is only what threads outside have open
 * ABI-3  a thread outside is inside the runtime between visit_begin and visit_end, and shutting down waits for it; a task
 *     needs no such thing, it is waited for anyway
 */
#pragma once

#include "engine/channel.h"
#include "engine/scheduler.h"
#include "hints.h"
#include "include/janus_rt.h"

typedef enum {
    HANDLE_NURSERY = 1,
    HANDLE_CHANNEL,
    HANDLE_SELECT,
    HANDLE_TOKEN,
    HANDLE_TASK,
    HANDLE_RUNTIME
} HandleKind;

/* The one runtime of the process. */
typedef struct {
    Scheduler scheduler;
    Slab selects, tokens, callbacks;
    Lock tokens_lock;
    Nursery *guests; /* the nursery of guest.c, once there is one; under the same lock */
    uint32_t epoch;  /* how many there were before */
    uint32_t mark;   /* four bits of that, shifted by four: what its handles begin with, but for the kind */
} Runtime;

extern Runtime the_runtime; /* the one global, in janus_rt.c */

/* One call from outside or from a task. */
typedef struct {
    Runtime *runtime; /* NULL: there is none */
    Task *task;       /* NULL: a thread outside */
    Worker *worker;
} Visit;

/* The task that runs here, or NULL on a thread outside. It needs no visit: it is waited for (ABI-3). */
Task *visit_task(void);

/* The same, and answers the worker whose `current` it is: one look less for a call that needs both. */
Worker *visit_worker(void);

/* The slow halves of a call: on a thread outside. */
Visit visit_enter(void);
void visit_leave(const Visit *visit);

/* Begin and end a call. After the end nothing of the runtime may be touched. */
static inline Visit
visit_begin(void)
{
    Task *task = visit_task();
    if (UNLIKELY(task == NULL)) {
        return visit_enter();
    }
    return (Visit){.runtime = &the_runtime, .task = task, .worker = task_worker(task)};
}

static inline void
visit_end(const Visit *visit)
{
    if (UNLIKELY(visit->task == NULL)) {
        visit_leave(visit);
    }
}

/* The same, and starts the runtime if it is not up. */
Visit visit_begin_or_start(void);

/* Handles carry 24 bits of the generation; records have 32. */
#define HANDLE_GENERATION_MASK UINT32_C(0xffffff)

/* A handle for a record, or from index | generation << 32. */
void *handle_of(HandleKind kind, const SlabHead *head);
void *handle_from(HandleKind kind, uint64_t place);

/* And back: NULL if it is null, of another kind or runtime, stale, or invented. */
void *handle_find(const Visit *visit, HandleKind kind, const void *handle, uint32_t *generation);

/* The same in a slab that is known. */
static inline void *
handle_find_in(const Slab *slab, uint32_t mark, HandleKind kind, const void *handle, uint32_t *generation)
{
    uint64_t word = (uint64_t)(uintptr_t)handle;
    if ((word >> 56 ^ (uint64_t)kind) != mark) {
        return NULL;
    }
    SlabHead *head = slab_peek(slab, (uint32_t)word, generation);
    bool same = head != NULL && ((*generation ^ (uint32_t)(word >> 32)) & HANDLE_GENERATION_MASK) == 0;
    return same && *generation % 2 == 1 ? head : NULL;
}

/* The same for channels, which are asked for at every message. */
static inline Channel *
handle_find_channel(const Visit *visit, const void *handle, uint32_t *generation)
{
    Runtime *runtime = visit->runtime;
    return runtime == NULL
               ? NULL
               : handle_find_in(&runtime->scheduler.channels, runtime->mark, HANDLE_CHANNEL, handle, generation);
}

/* The slabs of selects, tokens and callbacks, empty. */
void abi_slabs_init(Runtime *runtime, const EngineMemory *memory);
void abi_slabs_destroy(Runtime *runtime);

/* What a profile says about starting a runtime, and about turns; janus_profile.c. */
bool profile_allows(const janus_rt_options *options);
int64_t profile_yield_interval(uint32_t profile);

static inline LawBudget
budget_in(const janus_budget *budget)
{
    static const LawBudget open = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};
    if (budget == NULL) {
        return open;
    }
    return (LawBudget){{budget->ops, budget->memory, budget->spawns, budget->channel_ops, budget->syscalls}};
}

/* Whether every component is a number that can be counted, or JANUS_UNLIMITED. */
static inline bool
budget_valid(const janus_budget *budget)
{
    LawBudget law = budget_in(budget);
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (law.limit[c] < LAW_OPEN || law.limit[c] > LAW_UNITS_MAX) {
            return false;
        }
    }
    return true;
}
