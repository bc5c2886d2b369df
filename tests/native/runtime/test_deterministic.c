/* Deterministic schedulers: the order is a function of seed, workers, budgets and program, and of nothing else. */
#include "rt.h"

#define NOTES_MAX 4096

static uint64_t notes[NOTES_MAX];
static int note_count;

static void
note(uint64_t what)
{
    if (note_count < NOTES_MAX) {
        notes[note_count++] = what;
    }
}

static int64_t
yields(void *arg)
{
    uint64_t who = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < 5; i++) {
        note(who << 8 | i);
        MUST(janus_yield() == JANUS_OK);
    }
    return 0;
}

static int64_t
sleeps(void *arg)
{
    uint64_t who = (uint64_t)(uintptr_t)arg;
    MUST(janus_sleep_ns((int64_t)(100 - who) * 1000000000) == JANUS_OK); /* a minute and more, of virtual time */
    note(who << 16);
    return 0;
}

static int64_t
talks(void *channel)
{
    for (int i = 0; i < 10; i++) {
        MUST(janus_channel_send_i64(channel, i) == 0);
        note(7);
    }
    return 0;
}

static int64_t
receives_all(void *channel)
{
    for (int i = 0; i < 10; i++) {
        int32_t error;
        MUST(janus_channel_recv_i64(channel, &error) == i);
        note(9);
    }
    return 0;
}

static int64_t
tree(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    note((uint64_t)(1000 + depth));
    if (depth == 0) {
        return 0;
    }
    MUST(janus_nursery_create() != NULL);
    for (int i = 0; i < 3; i++) {
        MUST(janus_nursery_spawn(tree, (void *)(intptr_t)(depth - 1)) == 0);
    }
    return janus_nursery_await_all();
}

/* One run. Returns a hash of the order of events, and the chain. */
static uint64_t
run(uint32_t workers, uint64_t seed, uint64_t *chain)
{
    rt_up_logical(workers, seed, NULL);
    note_count = 0;
    void *channel = janus_channel_create_i64(1);
    janus_nursery_create();
    for (uintptr_t i = 0; i < 20; i++) {
        CHECK_EQUAL(janus_nursery_spawn(i % 2 == 0 ? yields : sleeps, (void *)i), 0);
    }
    CHECK_EQUAL(janus_nursery_spawn(talks, channel), 0);
    CHECK_EQUAL(janus_nursery_spawn(receives_all, channel), 0);
    CHECK_EQUAL(janus_nursery_spawn(tree, (void *)(intptr_t)4), 0);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_channel_destroy_i64(channel);
    *chain = janus_rt_chain();
    janus_rt_shutdown();
    uint64_t hash = 0;
    for (int i = 0; i < note_count; i++) {
        hash = (hash ^ notes[i]) * UINT64_C(0x100000001b3);
    }
    CHECK_EQUAL(note_count, 10 * 5 + 10 + 20 + 121);
    return hash;
}

static void
same_seed_same_order(void)
{
    for (uint32_t workers = 1; workers <= 16; workers *= 4) {
        uint64_t chain, again, other;
        uint64_t first = run(workers, 5, &chain);
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(run(workers, 5, &again), first);
            CHECK(again == chain && chain != 0);
        }
        uint64_t second = run(workers, 6, &other);
        CHECK(other != chain);
        CHECK(workers == 1 || second != first);
    }
}

/* Timers that are due together fire in the order of their deadlines, then of their arming. */
static int64_t
sleeps_same(void *arg)
{
    MUST(janus_sleep_ns(1000000) == JANUS_OK);
    note((uint64_t)(uintptr_t)arg);
    return 0;
}

static void
timers_in_order(void)
{
    rt_up_logical(1, 1, NULL);
    note_count = 0;
    janus_nursery_create();
    for (uintptr_t i = 0; i < 10; i++) {
        CHECK_EQUAL(janus_nursery_spawn(sleeps_same, (void *)i), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(notes[i], i);
    }
    janus_rt_shutdown();
}

/* Nothing can run any more: the nursery is cancelled, so that the program gets an error instead of hanging. */
static int64_t
waits(void *channel)
{
    int32_t error;
    (void)janus_channel_recv_i64(channel, &error);
    MUST(error == -1);
    return JANUS_CANCELLED;
}

static void
deadlock_ends(void)
{
    rt_up_logical(2, 1, NULL);
    void *channel = janus_channel_create_i64(0);
    CHECK_EQUAL(rt_run(waits, channel), JANUS_CANCELLED);
    janus_rt_shutdown();
}

/* Another budget gives another order. */
static int64_t
ticks(void *arg)
{
    janus_ticks *counter = janus_ticks_get();
    for (int i = 0; i < 3000; i++) {
        MUST(janus_tick(counter) == JANUS_OK);
        if (i % 100 == 0) {
            note((uint64_t)(uintptr_t)arg);
        }
    }
    return 0;
}

static uint64_t
run_ticks(int64_t interval)
{
    janus_rt_options options = {
        .size = sizeof options, .worker_count = 1, .deterministic = true, .yield_interval = interval};
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
    note_count = 0;
    janus_nursery_create();
    for (uintptr_t i = 1; i <= 3; i++) {
        CHECK_EQUAL(janus_nursery_spawn(ticks, (void *)i), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    uint64_t chain = janus_rt_chain();
    janus_rt_shutdown();
    return chain;
}

static void
budgets_decide(void)
{
    CHECK(run_ticks(1000) == run_ticks(1000));
    CHECK(run_ticks(1000) != run_ticks(100));
}

int
main(void)
{
    same_seed_same_order();
    timers_in_order();
    deadlock_ends();
    budgets_decide();
    return finish();
}
