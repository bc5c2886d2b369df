/* Load: many parked tasks, many short tasks, deep nests, many workers, storms. `--long`: a million parked, ten million
 * spawned, 256 workers. */
#include "rt.h"

static bool is_long;

static int64_t
size(int64_t number)
{
    return is_long ? 10 * number : FEW(number);
}

typedef struct {
    void *start, *stop;
    int64_t count;
} Crowd;

static int64_t
parks(void *channel)
{
    int32_t error;
    (void)janus_channel_recv_i64(channel, &error);
    return error == -1 ? 0 : -1;
}

/* 100,000 tasks wait at once; a close wakes all of them. */
static int64_t
many_waiters(void *arg)
{
    Crowd *all = arg;
    janus_nursery_create();
    for (int64_t i = 0; i < all->count; i++) {
        MUST(janus_nursery_spawn(parks, all->stop) == 0);
    }
    while (true) {
        janus_statistics now;
        MUST(janus_yield() == JANUS_OK && janus_rt_statistics(&now) == JANUS_OK);
        if (now.parked >= (uint64_t)all->count) {
            break;
        }
    }
    janus_channel_close_i64(all->stop);
    return janus_nursery_await_all();
}

static void
parked(uint32_t workers)
{
    Crowd all = {NULL, NULL, size(100000)};
    rt_up(workers);
    all.stop = janus_channel_create_i64(0);
    CHECK_EQUAL(rt_run(many_waiters, &all), JANUS_OK);
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.finished, all.count + 1);
    janus_channel_destroy_i64(all.stop);
    janus_rt_shutdown();
}

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t
many(void *arg)
{
    int64_t count = *(int64_t *)arg;
    while (count > 0) {
        MUST(janus_nursery_create() != NULL);
        for (int i = 0; i < 1000; i++) {
            MUST(janus_nursery_spawn(nothing, NULL) == 0);
        }
        MUST(janus_nursery_await_all() == JANUS_OK);
        count -= 1000;
    }
    return 0;
}

static void
spawn_and_join(uint32_t workers)
{
    int64_t count = size(1000000);
    rt_up(workers);
    CHECK_EQUAL(rt_run(many, &count), JANUS_OK);
    janus_rt_shutdown();
}

/* Every level awaits the next one: each has a stack, and the ends are processed in a loop. */
static int64_t
nest(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    if (depth == 0) {
        return 0;
    }
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(nest, (void *)(intptr_t)(depth - 1)) == 0);
    return janus_nursery_await_all();
}

/* No level awaits: every level returns at once, which cancels the levels below, and ends when they have ended. */
static int64_t
nest_and_leave(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    if (depth == 0) {
        return 0;
    }
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(nest_and_leave, (void *)(intptr_t)(depth - 1)) == 0 || janus_cancelled());
    MUST(janus_yield() == JANUS_OK || janus_cancelled());
    return 0;
}

static void
nesting(uint32_t workers)
{
    rt_up(workers);
    CHECK_EQUAL(rt_run(nest, (void *)(intptr_t)FEW(10000)), JANUS_OK);
    CHECK_EQUAL(rt_run(nest_and_leave, (void *)(intptr_t)FEW(10000)), JANUS_OK);
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.finished, now.spawned);
    janus_rt_shutdown();
}

static int64_t
sleeps_long(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_C(3600) * 1000000000);
}

/* A nursery with many children that is cancelled while it is still spawning, again and again. */
static int64_t
spawns_many(void *arg)
{
    int64_t count = *(int64_t *)arg;
    MUST(janus_nursery_create() != NULL);
    for (int64_t i = 0; i < count; i++) {
        int spawned = janus_nursery_spawn(i % 10 == 0 ? sleeps_long : nothing, NULL);
        if (spawned != 0) {
            break;
        }
    }
    return janus_nursery_await_all();
}

static int64_t
cancels(void *nursery)
{
    for (int i = 0; i < 30; i++) {
        (void)janus_yield();
    }
    (void)janus_nursery_cancel_in(nursery);
    return 0;
}

static void
cancel_storm(uint32_t workers)
{
    int64_t count = size(20000);
    rt_up(workers);
    for (int round = 0; round < 5; round++) {
        void *n = janus_nursery_open(NULL);
        for (int i = 0; i < 4; i++) {
            CHECK_EQUAL(janus_nursery_spawn_in(n, spawns_many, &count), JANUS_OK);
        }
        CHECK_EQUAL(janus_nursery_spawn_in(n, cancels, n), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(n), JANUS_CANCELLED);
        CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    }
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.finished, now.spawned);
    janus_rt_shutdown();
}

/* 100,000 waiting children in one nursery, and one request. */
static int64_t
parks_until_cancelled(void *channel)
{
    int64_t value;
    return janus_channel_receive(channel, &value) == JANUS_CANCELLED ? JANUS_CANCELLED : -1;
}

static int64_t
crowd_to_cancel(void *arg)
{
    Crowd *all = arg;
    void *nursery = janus_nursery_create();
    for (int64_t i = 0; i < all->count; i++) {
        MUST(janus_nursery_spawn(parks_until_cancelled, all->stop) == 0);
    }
    while (true) {
        janus_statistics now;
        MUST(janus_yield() == JANUS_OK && janus_rt_statistics(&now) == JANUS_OK);
        if (now.parked >= (uint64_t)all->count) {
            break;
        }
    }
    MUST(janus_nursery_cancel_in(nursery) == JANUS_OK);
    return janus_nursery_await_all() == JANUS_CANCELLED ? 0 : -1;
}

static void
cancel_crowd(uint32_t workers)
{
    Crowd all = {NULL, NULL, FEW(100000)};
    rt_up(workers);
    all.stop = janus_channel_create_i64(0);
    CHECK_EQUAL(rt_run(crowd_to_cancel, &all), JANUS_OK);
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.cancelled, all.count);
    CHECK_EQUAL(now.finished, all.count + 1);
    janus_channel_destroy_i64(all.stop);
    janus_rt_shutdown();
}

/* Lost and early wake-ups: pairs that wake each other continuously, on every worker, beside trees of tasks. */
static int64_t
ping(void *arg)
{
    Crowd *pair = arg;
    for (int64_t i = 0; i < pair->count; i++) {
        int32_t error;
        MUST(janus_channel_send_i64(pair->start, i) == 0);
        MUST(janus_channel_recv_i64(pair->stop, &error) == i && error == 0);
    }
    return 0;
}

static int64_t
pong(void *arg)
{
    Crowd *pair = arg;
    for (int64_t i = 0; i < pair->count; i++) {
        int32_t error;
        MUST(janus_channel_recv_i64(pair->start, &error) == i && error == 0);
        MUST(janus_channel_send_i64(pair->stop, i) == 0);
    }
    return 0;
}

static int64_t
tree(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    MUST(janus_yield() == JANUS_OK);
    if (depth == 0) {
        return 0;
    }
    MUST(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++) {
        MUST(janus_nursery_spawn(tree, (void *)(intptr_t)(depth - 1)) == 0);
    }
    return janus_nursery_await_all();
}

static void
storm(uint32_t workers)
{
    Crowd pairs[10];
    rt_up(workers);
    void *n = janus_nursery_open(NULL);
    for (int i = 0; i < 10; i++) {
        pairs[i] = (Crowd){janus_channel_create_i64(i % 3), janus_channel_create_i64(i % 2), size(3000)};
        CHECK_EQUAL(janus_nursery_spawn_in(n, ping, &pairs[i]), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(n, pong, &pairs[i]), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(n, tree, (void *)(intptr_t)4), JANUS_OK);
    }
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(janus_channel_destroy(pairs[i].start), JANUS_OK);
        CHECK_EQUAL(janus_channel_destroy(pairs[i].stop), JANUS_OK);
    }
    janus_rt_shutdown();
}

int
main(int count, char **arguments)
{
    is_long = count > 1 && strcmp(arguments[1], "--long") == 0;
    const uint32_t workers[] = {1, 2, SANITIZE_ADDRESS || SANITIZE_THREAD ? 8 : is_long ? 256 : 64};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        parked(workers[i]);
        spawn_and_join(workers[i]);
        nesting(workers[i]);
        cancel_storm(workers[i]);
        cancel_crowd(workers[i]);
        storm(workers[i]);
    }
    return finish();
}
