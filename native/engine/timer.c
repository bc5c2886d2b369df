/* Timers: the heap, and the thread that fires them. See timer.h. */
#include "engine/timer.h"

#include <string.h>

#include "engine/scheduler.h"
#include "engine/task_leave.h"
#include "engine/wait.h"

/* LawRealloc on an EngineAllocator, which needs the size of a released block. */
static void *
reallocate(void *context, void *block, size_t bytes)
{
    Timers *timers = context;
    void *fresh = bytes == 0 ? NULL : timers->memory->allocate(timers->memory->context, bytes);
    if (bytes != 0 && fresh == NULL) {
        return NULL;
    }
    if (block != NULL) {
        if (fresh != NULL) {
            memcpy(fresh, block, timers->heap_bytes < bytes ? timers->heap_bytes : bytes);
        }
        timers->memory->release(timers->memory->context, block, timers->heap_bytes);
    }
    timers->heap_bytes = bytes;
    return fresh;
}

bool
timers_init(Timers *timers, Scheduler *scheduler, const EngineAllocator *memory)
{
    lock_init(&timers->lock);
    timers->next_id = 0;
    timers->heap_bytes = 0;
    timers->memory = memory;
    timers->scheduler = scheduler;
    timers->has_thread = timers->stop = false;
    timers->heap = (LawHeap){0};
    return parker_init(&timers->parker);
}

/* Call the function of an alarm (TIMER-3). Gives the lock, and takes it again. */
static void
call_alarm(Timers *timers, const Alarm *alarm)
{
    Alarm due = *alarm;
    lock_give(&timers->lock);
    due.call(due.context, due.what);
    lock_take(&timers->lock);
}

/* Fire the timers that are due. Under the lock, so a waiter cannot leave with its record meanwhile (TIMER-2). */
static void
fire(Timers *timers, Worker *worker, int64_t now_ns)
{
    LawHeapEntry *timer;
    while ((timer = law_heap_due(&timers->heap, now_ns)) != NULL) {
        law_heap_remove(&timers->heap, timer);
        Waiter *waiter = LAW_RECORD(timer, Waiter, timer);
        if (waiter->task == NULL && waiter->parker == NULL) {
            call_alarm(timers, LAW_RECORD(waiter, Alarm, waiter));
        } else if (waiter_claim(waiter)) {
            waiter_finish(waiter, worker, -1, ENGINE_TIMEOUT, true);
        }
    }
}

static void *
timers_thread(void *arg)
{
    Timers *timers = arg;
    for (;;) {
        lock_take(&timers->lock);
        fire(timers, NULL, park_clock_ns());
        const LawHeapSlot *next = law_heap_first(&timers->heap);
        int64_t deadline_ns = next == NULL ? PARK_FOREVER : next->deadline_ns;
        bool stop = timers->stop;
        lock_give(&timers->lock);
        if (stop) {
            return NULL;
        }
        parker_sleep(&timers->parker, deadline_ns);
    }
}

void
timers_destroy(Timers *timers)
{
    if (timers->has_thread) {
        lock_take(&timers->lock);
        timers->stop = true;
        lock_give(&timers->lock);
        parker_wake(&timers->parker, 1);
        pthread_join(timers->thread, NULL);
        timers->has_thread = false;
    }
    law_heap_free(&timers->heap, reallocate, timers);
    parker_destroy(&timers->parker);
}

bool
timers_make_thread(Timers *timers)
{
    Scheduler *scheduler = timers->scheduler;
    lock_take(&timers->lock);
    if (!timers->has_thread && !scheduler->options.deterministic) {
        timers->has_thread = scheduler_thread(scheduler, &timers->thread, timers_thread, timers) == 0;
    }
    bool ready = timers->has_thread || scheduler->options.deterministic;
    lock_give(&timers->lock);
    return ready;
}

bool
timers_ready(Timers *timers, Task *self)
{
    lock_take(&timers->lock);
    bool ready = timers->has_thread || timers->scheduler->options.deterministic;
    lock_give(&timers->lock);
    if (ready || self == NULL || fiber_headroom(&self->fiber) >= THREAD_HEADROOM_BYTES) {
        return ready || timers_make_thread(timers);
    }
    task_yield_for_timers(self);
    lock_take(&timers->lock);
    ready = timers->has_thread;
    lock_give(&timers->lock);
    return ready;
}

int
timers_arm(Timers *timers, LawHeapEntry *timer, int64_t deadline_ns)
{
    lock_take(&timers->lock);
    bool ready = timers->has_thread || timers->scheduler->options.deterministic;
    bool armed = ready && law_heap_reserve(&timers->heap, reallocate, timers);
    if (armed) {
        LAW_RULE(*timer == 0, "HEAP-2");
        law_heap_push(&timers->heap, timer, deadline_ns, ++timers->next_id);
    }
    bool first = armed && *timer == 1;
    lock_give(&timers->lock);
    if (first && !timers->scheduler->options.deterministic) {
        parker_wake(&timers->parker, 1);
    }
    return armed ? ENGINE_OK : ENGINE_MEMORY;
}

int
timers_set_alarm(Timers *timers, Alarm *alarm, int64_t deadline_ns, void (*call)(void *context, uint64_t what),
                 void *context, uint64_t what)
{
    timers_disarm(timers, &alarm->waiter.timer);
    waiter_init(&alarm->waiter, timers->scheduler, NULL, NULL);
    alarm->call = call;
    alarm->context = context;
    alarm->what = what;
    return timers_arm(timers, &alarm->waiter.timer, deadline_ns);
}

void
timers_clear_alarm(Timers *timers, Alarm *alarm)
{
    timers_disarm(timers, &alarm->waiter.timer);
}

void
timers_disarm(Timers *timers, LawHeapEntry *timer)
{
    lock_take(&timers->lock);
    if (*timer != 0) { /* otherwise it has fired, or was disarmed before */
        law_heap_remove(&timers->heap, timer);
    }
    lock_give(&timers->lock);
}

bool
timers_jump(Timers *timers, Worker *worker, int64_t *now_ns)
{
    lock_take(&timers->lock);
    const LawHeapSlot *next = law_heap_first(&timers->heap);
    bool armed = next != NULL;
    if (armed) {
        *now_ns = next->deadline_ns > *now_ns ? next->deadline_ns : *now_ns;
        fire(timers, worker, *now_ns);
    }
    lock_give(&timers->lock);
    return armed;
}
