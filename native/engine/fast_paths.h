/* The usual case: a plain child, and a plain end. What nearly all tasks consist of, by itself and inline.
 *
 * Both functions look at everything before they change anything, and then nothing can fail: so there is no way back to be
 * prepared for, and no function to be called. Whatever is out of the ordinary is left to spawn.c and task_end.c, which
 * know all cases, this one included.
 *
 * FASTPATH-1  each of them answers whether it has done all of it; if not, it has done nothing
 * FASTPATH-2  what they do is what nursery_spawn and task_end would have done
 *
 * Rejected: leaving it to the compiler. One slow path in the middle, and half of a spawn is saving registers.
 */
#pragma once

#include "engine/scheduler.h"
#include "hints.h"

/* The number of the owner's next child: odd; those of others are even (CHILDREN-3). */
static inline uint32_t
nursery_next_number(Nursery *nursery)
{
    return (uint32_t)(2 * nursery->spawned++ + 1);
}

/* What is the same for every new task but its fiber. Its purse is there already. */
static ALWAYS_INLINE void
task_renew(Task *task, Nursery *nursery)
{
    task->nursery = nursery;
    task->opened = NULL;
    task->ticks_left = 0;
    task->marks.all = 0;
    task->above = task->has_awaited = false;
    task_word_begin(task);
}

/* Spawn a plain child of the caller's own nursery on the caller's worker, if nobody is to stop, the worker has paid for
 * it in advance, and there is a record for it. In a sovereign scheduler, where a plain child is something else, nothing
 * is paid in advance. */
static ALWAYS_INLINE bool
spawn_fast(Nursery *nursery, Worker *worker, Task *caller, int64_t (*entry)(void *arg), void *arg)
{
    SlabCache *records = &worker->host->tasks;
    bool asked = load_u32(&worker->scheduler->requests, RELAXED) != caller->requests_seen;
    if (UNLIKELY(asked || entry == NULL || nursery_state(nursery) != LAW_NURSERY_OPEN || /* NURSERY-2 */
                 !credit_has_spawn(&worker->credit, nursery->purse) || records->free == NULL)) {
        return false;
    }
    worker->credit.spawns -= 1;
    Task *task = slab_cache_pop(records);
    fiber_init(&task->fiber, NULL, entry, arg, 0);
    task->purse = nursery->purse;
    task_renew(task, nursery);
    task->number = nursery_next_number(nursery);
    worker_queue_fresh(worker, task);
    return true;
}

/* The end of a task that has returned, holds nothing, and of whom there is nothing to say, and nobody to say it to. */
static ALWAYS_INLINE bool
end_fast(Worker *worker, Task *task, enum fiber_state state)
{
    uint64_t holds = (uint64_t)(uintptr_t)task->opened | (uint64_t)task->ticks_left;
    if (UNLIKELY((holds | task->marks.all) != 0 || state != FIBER_DONE || task->fiber.result < 0)) {
        return false;
    }
    task_let_go(worker, task, LAW_OUTCOME_OK);
    return true;
}
