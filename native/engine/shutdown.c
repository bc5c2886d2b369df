/* Stopping: refuse new work, cancel everything, wait for all tasks, free everything (SCHEDULER-1, SCHEDULER-2,
 * SCHEDULER-4 of scheduler.h). */
#include "engine/shutdown.h"

#include "engine/channel.h"
#include "engine/scheduler.h"

#define QUIET_TOKEN 1u

bool
scheduler_enter(Scheduler *scheduler)
{
    add_i64(&scheduler->outside_calls, 1, ACQ_REL);
    fence_after_change(); /* either the thread that stops sees this call, or this call sees that the scheduler stops */
    if (load_u32(&scheduler->phase, ACQUIRE) == SCHEDULER_RUNNING) {
        return true;
    }
    scheduler_leave(scheduler);
    return false;
}

void
scheduler_leave(Scheduler *scheduler)
{
    /* scheduler_stop reads the count under this lock, so the scheduler is not freed before this call has left. */
    lock_take(&scheduler->roots_lock);
    add_i64(&scheduler->outside_calls, -1, ACQ_REL);
    if (load_u32(&scheduler->phase, ACQUIRE) != SCHEDULER_RUNNING) {
        parker_wake(&scheduler->quiet, QUIET_TOKEN);
    }
    lock_give(&scheduler->roots_lock);
}

/* Sums the ends before the spawns: both sums only rise, so if they are equal they were equal at a moment in between. */
static bool
is_quiet(const Scheduler *scheduler)
{
    uint64_t finished = 0, spawned = 0;
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        finished += load_u64(&scheduler->workers[i].statistics.finished, ACQUIRE);
    }
    fence_seq_cst();
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        spawned += load_u64(&scheduler->workers[i].statistics.spawned, ACQUIRE);
    }
    return finished == spawned + load_u64(&scheduler->outside_spawned, ACQUIRE);
}

void
scheduler_check_quiet(Scheduler *scheduler)
{
    if (is_quiet(scheduler)) {
        parker_wake(&scheduler->quiet, QUIET_TOKEN);
    }
}

static void
cancel_everything(Scheduler *scheduler)
{
    lock_take(&scheduler->roots_lock);
    LawLink *link = law_queue_oldest(&scheduler->roots);
    for (; link != NULL; link = law_queue_newer(&scheduler->roots, link)) {
        nursery_cancel_silent(LAW_RECORD(link, Nursery, root_link), LAW_CANCEL_SHUTDOWN);
    }
    link = law_queue_oldest(&scheduler->outside);
    for (; link != NULL; link = law_queue_newer(&scheduler->outside, link)) {
        parker_wake(LAW_RECORD(link, Waiter, outside)->parker, 1);
    }
    lock_give(&scheduler->roots_lock);
    uint32_t generation;
    Nursery *nursery;
    for (uint32_t i = 0; (nursery = slab_peek(&scheduler->nurseries, i, &generation)) != NULL; i++) {
        if (load_u32(&nursery->watched, RELAXED) != 0 && generation % 2 == 1 && nursery_cancelled(nursery)) {
            nursery_run_cancel_hook(nursery, generation,
                                    LAW_CANCEL_SHUTDOWN); /* perhaps a second time: the hook ignores that */
        }
    }
}

static void
wait_quiet(Scheduler *scheduler)
{
    static const atomic_u32 never = {0};
    for (;;) {
        if (scheduler->options.deterministic && !is_quiet(scheduler)) {
            scheduler_drive(scheduler, &never, 1);
        }
        lock_take(&scheduler->roots_lock);
        bool done = is_quiet(scheduler) && load_i64(&scheduler->outside_calls, ACQUIRE) == 0;
        lock_give(&scheduler->roots_lock);
        if (done) {
            return;
        }
        parker_sleep(&scheduler->quiet, PARK_FOREVER);
    }
}

/* Free the rings of channels that were not destroyed. */
static void
free_rings(Scheduler *scheduler)
{
    for (uint64_t i = 0; i < scheduler->channels.carved; i++) {
        Channel *channel = slab_at(&scheduler->channels, i);
        if (channel != NULL && channel->ring != NULL) {
            size_t bytes = (size_t)channel->capacity * channel->item_bytes;
            scheduler->memory->release(scheduler->memory->context, channel->ring, bytes);
        }
    }
}

int
scheduler_stop(Scheduler *scheduler, Task *caller)
{
    uint32_t running = SCHEDULER_RUNNING;
    if (caller != NULL || !cas_u32(&scheduler->phase, &running, SCHEDULER_STOPPING, ACQ_REL)) {
        return ENGINE_INVALID;
    }
    fence_after_change(); /* see scheduler_enter */
    cancel_everything(scheduler);
    wait_quiet(scheduler);
    while (load_u32(&scheduler->starting, ACQUIRE) != 0) { /* a thread is being made */
        cpu_relax();
    }
    store_u32(&scheduler->phase, SCHEDULER_HALTED, RELEASE);
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        if (scheduler->workers[i].has_thread) {
            idle_call(&scheduler->idle, i);
        }
    }
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        if (scheduler->workers[i].has_thread) {
            pthread_join(scheduler->workers[i].thread, NULL);
        }
    }
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        scheduler_free_worker(&scheduler->workers[i]);
    }
    scheduler->memory->release(scheduler->memory->context, scheduler->workers,
                               scheduler->worker_count * sizeof(Worker));
    idle_destroy(&scheduler->idle);
    free_rings(scheduler);
    scheduler_unprepare(scheduler);
    return ENGINE_OK;
}
