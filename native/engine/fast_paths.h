/* The fast paths of the engine: the spawn of a plain child, and the end of a plain task. Nearly all tasks take both.
 *
 * Both functions check every condition before they change anything, and after that nothing can fail. So no register is
 * saved for a way back, and no function is called. In every other case they return false, and spawn.c and task_end.c
 * handle the task; those know all cases, this one included.
 *
 * FASTPATH-1  each of them returns true and has done everything, or returns false and has done nothing
 * FASTPATH-2  they do exactly what nursery_spawn and task_end would have done
 *
 * BURSAR_FAST_PATHS=OFF makes both return false, and turns off the short forms of a send and a receive (channel_ops.c).
 * The tests in C run such a build too (scripts/test_native.py no-fast-paths).
 *
 * Rejected: to leave it to the compiler. With one slow path in the middle, half of a spawn is saving registers.
 */
#pragma once

#include "engine/scheduler.h"
#include "hints.h"

/* The number of the owner's next child: odd; children spawned by others have even numbers (CHILDREN-3). */
static inline uint32_t
nursery_next_number(Nursery *nursery)
{
    return (uint32_t)(2 * nursery->spawned++ + 1);
}

/* What is the same for every new task except its fiber. Its purse is set already. */
static ALWAYS_INLINE void
task_init(Task *task, Nursery *nursery)
{
    task->nursery = nursery;
    task->opened = NULL;
    task->ticks_left = 0;
    task->marks.all = 0;
    task->above = task->has_awaited = false;
    task_word_begin(task);
}

/* Spawn a plain child of the caller's own nursery on the caller's worker. Returns false if there is an unseen request,
 * if the worker has not paid for a spawn in advance, or if it has no free record. A sovereign scheduler pays nothing in
 * advance, so there this always returns false: a child without options is not plain there. */
static ALWAYS_INLINE bool
spawn_fast(Nursery *nursery, Worker *worker, Task *caller, int64_t (*entry)(void *arg), void *arg)
{
    SlabCache *records = &worker->host->tasks;
    bool asked = load_u32(&worker->scheduler->requests, RELAXED) != caller->requests_seen;
    if (!FAST_PATHS || UNLIKELY(asked || entry == NULL || nursery_state(nursery) != LAW_NURSERY_OPEN || /* NURSERY-2 */
                                !credit_has_spawn(&worker->credit, nursery->purse) || records->free == NULL)) {
        return false;
    }
    worker->credit.spawns -= 1;
    Task *task = slab_cache_pop(records);
    fiber_init(&task->fiber, NULL, entry, arg, 0);
    task->purse = nursery->purse;
    task_init(task, nursery);
    task->number = nursery_next_number(nursery);
    worker_queue_fresh(worker, task);
    return true;
}

/* End a task that returned normally, holds nothing, has no listener, and whose nursery has nothing to note about it. */
static ALWAYS_INLINE bool
end_fast(Worker *worker, Task *task, enum fiber_state state)
{
    uint64_t holds = (uint64_t)(uintptr_t)task->opened | (uint64_t)task->ticks_left;
    if (!FAST_PATHS || UNLIKELY((holds | task->marks.all) != 0 || state != FIBER_DONE || task->fiber.result < 0)) {
        return false;
    }
    task_free(worker, task, LAW_OUTCOME_OK);
    return true;
}
