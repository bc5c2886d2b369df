/* Every allocation, mapping and thread refused in turn, in a scenario that uses all of the engine: an error comes back,
 * nothing hangs, nothing is left. Faults 2, 8 and 9. */
#include "rt.h"

#include <errno.h>

#include "engine/channel.h"
#include "engine/scheduler.h"

/* One count over all three tables: the call with this number is refused. Several threads ask. */
static atomic_long calls, refuse_at, blocks;

static bool
refused(void)
{
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&refuse_at);
}

static void *
allocate(void *context, size_t bytes)
{
    (void)context;
    void *block = refused() ? NULL : engine_memory_libc.allocate(NULL, bytes);
    atomic_fetch_add(&blocks, block != NULL);
    return block;
}

static void
release(void *context, void *block, size_t bytes)
{
    (void)context;
    atomic_fetch_sub(&blocks, 1);
    engine_memory_libc.release(NULL, block, bytes);
}

static int
create(void *context, pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg)
{
    (void)context;
    return refused() ? EAGAIN : pthread_create(thread, attributes, start, arg);
}

static void *
map(void *context, size_t bytes)
{
    (void)context;
    if (refused()) {
        errno = ENOMEM;
        return NULL;
    }
    void *base = stack_system_linux.map(NULL, bytes);
    atomic_fetch_add(&blocks, base != NULL);
    return base;
}

static int
unmap(void *context, void *base, size_t bytes)
{
    (void)context;
    atomic_fetch_sub(&blocks, 1);
    return stack_system_linux.unmap(NULL, base, bytes);
}

static int
advise(void *context, void *base, size_t bytes, int advice)
{
    (void)context;
    if (refused()) {
        errno = ENOMEM;
        return -1;
    }
    return stack_system_linux.advise(NULL, base, bytes, advice);
}

static ssize_t
advise_many(void *context, const struct iovec *ranges, size_t count, int advice)
{
    (void)context;
    if (refused()) {
        errno = ENOMEM;
        return -1;
    }
    return stack_system_linux.advise_many(NULL, ranges, count, advice);
}

static int
forbid(void *context, void *base, size_t bytes)
{
    (void)context;
    return stack_system_linux.forbid(NULL, base, bytes);
}

static bool
readable(void *context, const void *byte)
{
    (void)context;
    return stack_system_linux.readable(NULL, byte);
}

static const EngineMemory memory = {allocate, release, NULL};
static const EngineThreads threads = {create, NULL};
static const struct stack_system kernel = {
    .map = map, .unmap = unmap, .advise = advise, .advise_many = advise_many, .forbid = forbid, .readable = readable};

static _Alignas(CACHE_LINE) Scheduler scheduler;
static const LawBudget open_budget = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};
static Channel *channel;
static uint32_t channel_generation;

static Task *
self(void)
{
    struct fiber *fiber = fiber_self();
    return LAW_RECORD(fiber, Task, fiber);
}

static int64_t
talks(void *arg)
{
    int64_t value = (int64_t)(intptr_t)arg;
    return value % 2 == 0 ? channel_send(channel, channel_generation, self(), &value, true)
                          : channel_receive(channel, channel_generation, self(), &value, true);
}

static int64_t
sleeps(void *arg)
{
    (void)arg;
    return task_sleep_until(self(), scheduler_now_ns(&scheduler) + 1000);
}

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Spawns more than one chunk, one magazine and one deque hold; ends with the first refusal. */
static int64_t
parent(void *arg)
{
    (void)arg;
    static const LawBudget some = {{1000, 1000, 10, 10, 10}};
    const NurseryOptions options = {.budget = open_budget};
    int error;
    Nursery *nursery = nursery_open(&scheduler, self(), &options, &error);
    if (nursery == NULL) {
        return error;
    }
    for (intptr_t i = 0; i < 400 && error == ENGINE_OK; i++) {
        TaskOptions task = {.entry = i < 80 ? talks : i < 90 ? sleeps : nothing, .arg = (void *)i};
        task.budget = i % 100 == 99 ? &some : NULL;
        task.stack_bytes = i % 100 == 50 ? 100000 : 0;
        error = nursery_spawn(nursery, 0, self(), &task, NULL);
    }
    if (error != ENGINE_OK) {
        nursery_cancel(nursery, LAW_CANCEL_USER);
    }
    Ending ending = nursery_await(nursery, self());
    nursery_free(nursery, task_worker(self()));
    return error != ENGINE_OK ? error : ending.kind == END_OK ? 0 : ending.code < 0 ? ending.code : -1;
}

/* The whole scenario. True if nothing was refused in a way that shows. */
static bool
scenario(bool logical)
{
    const SchedulerOptions options = {.workers = 3, .seed = 1, .deterministic = logical, .budget = open_budget,
                                      .memory = &memory, .threads = &threads, .system = &kernel};
    int started = scheduler_start(&scheduler, &options);
    if (started != ENGINE_OK) {
        CHECK_EQUAL(started, ENGINE_MEMORY);
        return false;
    }
    bool whole = false;
    int error = ENGINE_MEMORY;
    channel = channel_make(&scheduler, sizeof(int64_t), 3);
    const NurseryOptions plain = {.budget = open_budget};
    Nursery *nursery = channel == NULL ? NULL : nursery_open(&scheduler, NULL, &plain, &error);
    if (nursery != NULL) {
        channel_generation = load_u32(&channel->head.generation, RELAXED);
        const TaskOptions task = {.entry = parent, .stack_bytes = 64 << 10};
        error = nursery_spawn(nursery, load_u32(&nursery->head.generation, RELAXED), NULL, &task, NULL);
        Ending ending = nursery_await(nursery, NULL);
        CHECK(ending.kind == END_OK || ending.kind == END_FAILED);
        whole = error == ENGINE_OK && ending.kind == END_OK;
        nursery_free(nursery, NULL);
    }
    CHECK(whole || error == ENGINE_MEMORY || error == ENGINE_OK);
    CHECK_EQUAL(scheduler_stop(&scheduler, NULL), ENGINE_OK);
    return whole;
}

int
main(void)
{
    for (int logical = 0; logical < 2; logical++) {
        atomic_store(&refuse_at, 0);
        atomic_store(&calls, 0);
        CHECK(scenario(logical != 0));
        CHECK_EQUAL(atomic_load(&blocks), 0);
        long all = atomic_load(&calls), shown = 0;
        CHECK(all > 20);
        for (long at = 1; at <= all + 5; at++) {
            atomic_store(&refuse_at, at);
            atomic_store(&calls, 0);
            shown += !scenario(logical != 0);
            CHECK_EQUAL(atomic_load(&blocks), 0); /* nothing is left behind */
        }
        CHECK(shown > 5);
    }
    return finish();
}
