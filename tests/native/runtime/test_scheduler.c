/* The scheduler: workers, stealing, yields, disasters, starting and stopping. */
#include "rt.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/scheduler.h"

static atomic_long ran;

static int64_t
adds_one(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

/* SI-1 to SI-3, SO-1: start, stop, start again; a second start is refused. */
static void
up_and_down(void)
{
    for (int i = 0; i < 5; i++) {
        CHECK(janus_rt_get() == NULL);
        rt_up(2);
        CHECK_EQUAL(janus_rt_init_default(), -1);
        CHECK(janus_rt_get() != NULL && janus_rt_is_running());
        janus_rt_shutdown();
        janus_rt_shutdown();
        CHECK(!janus_rt_is_running());
    }
    CHECK(janus_nursery_create() != NULL); /* starts the runtime */
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_rt_shutdown();
    janus_statistics none;
    CHECK_EQUAL(janus_rt_statistics(&none), JANUS_STOPPING);
    void *scheduler = janus_scheduler_create((janus_rt_config){1, 1});
    CHECK(scheduler != NULL && janus_scheduler_create((janus_rt_config){1, 1}) == NULL);
    janus_scheduler_shutdown((void *)(intptr_t)77); /* an invalid handle */
    CHECK(janus_rt_is_running());
    janus_scheduler_shutdown(scheduler);
    CHECK(!janus_rt_is_running());
}

/* WI-1 to WI-5, MW-1 to MW-7. */
static void
counts(void)
{
    atomic_store(&ran, 0);
    janus_nursery_create();
    for (int i = 0; i < 50; i++) {
        CHECK_EQUAL(janus_nursery_spawn(adds_one, NULL), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 50);
    janus_statistics now = rt_statistics();
    CHECK(now.spawned == 50 && now.finished == 50 && now.dispatched == 50);
    CHECK(now.failed == 0 && now.panicked == 0 && now.cancelled == 0);
}

/* Fault 13: a task that only yields does not keep another one, on the only worker, from running. */
static atomic_int other_ran;

static int64_t
yields_until_other_ran(void *arg)
{
    (void)arg;
    while (atomic_load(&other_ran) == 0) {
        MUST(janus_yield() == JANUS_OK);
    }
    return 0;
}

static int64_t
other(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        MUST(janus_scheduler_yield() == 0);
    }
    atomic_store(&other_ran, 1);
    return 0;
}

static void
yield_fair(void)
{
    atomic_store(&other_ran, 0);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn(yields_until_other_ran, NULL), 0);
    CHECK_EQUAL(janus_nursery_spawn(yields_until_other_ran, NULL), 0);
    CHECK_EQUAL(janus_nursery_spawn(other, NULL), 0);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(janus_scheduler_yield(), -1); /* not called by a task */
}

/* A task that ticks gives way at the end of its turn, without calling yield. */
static int64_t
ticks_until_other_ran(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    while (atomic_load(&other_ran) == 0) {
        MUST(janus_tick(ticks) == JANUS_OK);
    }
    return 0;
}

static void
tick_fair(void)
{
    atomic_store(&other_ran, 0);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn(ticks_until_other_ran, NULL), 0);
    CHECK_EQUAL(janus_nursery_spawn(ticks_until_other_ran, NULL), 0);
    CHECK_EQUAL(janus_nursery_spawn(other, NULL), 0);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_ticks *outside = janus_ticks_get();
    CHECK_EQUAL(janus_tick(outside), JANUS_OK);
}

/* Fresh tasks go first, but a stream of them does not starve a started one. */
static int64_t
spawns_its_successor(void *nursery)
{
    if (atomic_load(&other_ran) == 0) {
        MUST(janus_nursery_spawn_in(nursery, spawns_its_successor, nursery) == JANUS_OK);
    }
    return 0;
}

static void
started_not_starved(void)
{
    atomic_store(&other_ran, 0);
    void *n = janus_nursery_open(NULL), *m = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(m, other, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, spawns_its_successor, n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(m), JANUS_OK);
    int64_t ended = janus_nursery_await(n);
    CHECK(ended == JANUS_OK || ended < -1000); /* the last of them may find the nursery closed */
    CHECK_EQUAL(janus_nursery_destroy(m), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* Fault 19: a panic, an overflow and a stack that is too large end a task; the workers go on. */
static __attribute__((noinline)) int64_t
overflow(volatile int64_t depth)
{
    volatile char some[200];
    some[0] = (char)depth;
    some[199] = some[0];
    return depth < 0 ? 0 : overflow(depth + 1) + some[199];
}

static int64_t
overflows(void *arg)
{
    (void)arg;
    return overflow(0);
}

static int64_t
overflows_later(void *arg)
{
    MUST(janus_yield() == JANUS_OK);
    return overflows(arg);
}

static int64_t
panics(void *arg)
{
    janus_panic((int32_t)(intptr_t)arg);
    return 0;
}

static int64_t
uses_much_stack(void *arg)
{
    volatile char much[200000];
    (void)arg;
    for (size_t i = 0; i < sizeof much; i += 512) {
        much[i] = 1;
    }
    MUST(janus_yield() == JANUS_OK);
    MUST(much[512] == 1);
    return 0;
}

static void
disasters(void)
{
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    janus_task_options named = {.size = sizeof named, .name = "big", .stack_bytes = 300000};
    void *n = janus_nursery_open(&options);
    atomic_store(&ran, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(janus_nursery_spawn_in(n, panics, (void *)(intptr_t)-9), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(n, i % 2 == 0 ? overflows : overflows_later, NULL), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(n, adds_one, NULL), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_with(n, uses_much_stack, NULL, &named, NULL), JANUS_OK);
    }
    CHECK_EQUAL(janus_nursery_await(n), JANUS_PANICKED);
    CHECK_EQUAL(atomic_load(&ran), 10);
    CHECK_EQUAL(rt_statistics().panicked, 20);
    CHECK_EQUAL(rt_statistics().failed, 0);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    named.stack_bytes = (size_t)1 << 40;
    n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, adds_one, NULL, &named, NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* The first sleep makes a thread, which needs more stack than a task may have left: then the loop makes it. */
static int64_t
sleeps_deep(void *arg)
{
    volatile char used[3000];
    (void)arg;
    used[0] = used[2999] = 1;
    MUST(janus_sleep_ns(1) == JANUS_OK);
    MUST(used[0] == 1 && used[2999] == 1);
    return 0;
}

static void
deep_sleep(void)
{
    CHECK_EQUAL(rt_run(sleeps_deep, NULL), JANUS_OK);
}

/* Fault 1: any number of threads may spawn. */
static void *
hands_in(void *nursery)
{
    for (int i = 0; i < FEW(20000); i++) {
        CHECK_EQUAL(janus_nursery_spawn_in(nursery, adds_one, NULL), JANUS_OK);
    }
    return NULL;
}

static void
outside(void)
{
    pthread_t threads[3];
    void *n = janus_nursery_open(NULL);
    atomic_store(&ran, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, hands_in, n), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 3 * FEW(20000));
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

static int64_t
sleeps_long(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_C(3600) * 1000000000);
}

static int64_t
opens_and_sleeps(void *arg)
{
    janus_nursery_create();
    for (int i = 0; i < 5; i++) {
        MUST(janus_nursery_spawn(sleeps_long, arg) == 0);
    }
    return janus_nursery_await_all();
}

/* Fault 12: stopping ends every task that was not awaited, however deep, and leaves nothing. */
static void
stop_with_work(void)
{
    for (int workers = 1; workers <= 4; workers++) {
        rt_up((uint32_t)workers);
        janus_nursery_create();
        for (int i = 0; i < 20; i++) {
            CHECK_EQUAL(janus_nursery_spawn(opens_and_sleeps, NULL), 0);
        }
        void *stale = janus_nursery_open(NULL);
        janus_rt_shutdown();
        CHECK_EQUAL(janus_nursery_state(stale), JANUS_INVALID);
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_PENDING);
        rt_up(1);
        CHECK_EQUAL(janus_nursery_state(stale), JANUS_INVALID); /* of another runtime */
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_PENDING);
        janus_rt_shutdown();
    }
}

/* An outside thread that waits for a channel gets an error when the runtime stops. */
static void *
receives_outside(void *channel)
{
    int64_t value;
    int error = janus_channel_receive(channel, &value);
    CHECK(error == JANUS_STOPPING || error == JANUS_INVALID);
    return NULL;
}

static void
stop_with_outside_thread(void)
{
    pthread_t thread;
    rt_up(2);
    void *channel = janus_channel_create_i64(0);
    CHECK_EQUAL(pthread_create(&thread, NULL, receives_outside, channel), 0);
    janus_rt_shutdown();
    pthread_join(thread, NULL);
}

static int64_t
shuts_down(void *arg)
{
    (void)arg;
    janus_rt_shutdown(); /* no effect */
    MUST(janus_rt_is_running());
    MUST(janus_rt_init_default() == -1);
    return 0;
}

static int64_t
tree(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    if (depth == 0) {
        atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
        return 0;
    }
    MUST(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++) {
        MUST(janus_nursery_spawn(tree, (void *)(intptr_t)(depth - 1)) == 0);
    }
    return janus_nursery_await_all();
}

/* Fault 22: the three policies, and no stealing; up to 256 workers, started on demand. */
static void
policies(void)
{
    for (uint32_t policy = 0; policy < 4; policy++) {
        for (uint32_t workers = 1; workers <= (SANITIZE_THREAD ? 16 : 256); workers *= 4) {
            janus_rt_options options = {.size = sizeof options,
                                        .worker_count = workers,
                                        .seed = 3,
                                        .steal_policy = policy % 3,
                                        .no_stealing = policy == 3};
            CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
            CHECK_EQUAL(rt_statistics().threads, 1); /* on demand */
            atomic_store(&ran, 0);
            CHECK_EQUAL(rt_run(tree, (void *)(intptr_t)6), JANUS_OK);
            CHECK_EQUAL(atomic_load(&ran), 4096);
            janus_statistics now = rt_statistics();
            CHECK_EQUAL(now.finished, now.spawned);
            CHECK(policy != 3 || now.stolen == 0);
            CHECK(workers > 1 || now.steals_failed == 0);
            janus_rt_shutdown();
        }
    }
    janus_rt_options wrong = {.size = sizeof wrong, .steal_policy = 3};
    CHECK_EQUAL(janus_rt_init_with(&wrong), JANUS_INVALID);
    wrong = (janus_rt_options){.size = sizeof wrong, .worker_count = 1000000};
    CHECK_EQUAL(janus_rt_init_with(&wrong), JANUS_INVALID);
}

/* The processor time of this thread. */
static int64_t
own_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool
looked_for_work(void)
{
    janus_statistics before = rt_statistics();
    int64_t begun_ms = own_ms();
    while (own_ms() < begun_ms + 20) { /* twenty times the longest pause of a searcher */
    }
    janus_statistics after = rt_statistics();
    return after.steals_failed != before.steals_failed || after.sleeps != before.sleeps;
}

/* Fault 21: workers without work look a few times and then sleep, all of them, until there is some. */
static void
idle_workers_sleep(void)
{
    rt_up(4);
    for (int round = 0; round < 3; round++) {
        CHECK_EQUAL(rt_run(tree, (void *)(intptr_t)4), JANUS_OK);
        int looks = 0;
        while (looks < 500 && looked_for_work()) { /* a busy machine keeps them awake for a while, but not forever */
            looks++;
        }
        CHECK(looks < 500);
    }
    janus_rt_shutdown();
}

static int64_t
looks_at_itself(void *arg)
{
    MUST(janus_task_id() == *(uint64_t *)arg || *(uint64_t *)arg == 0);
    MUST(strcmp(janus_task_name(), "looker") == 0);
    return 0;
}

static void
identity(void)
{
    uint64_t any = 0;
    janus_task_options named = {.size = sizeof named, .name = "looker"};
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, looks_at_itself, &any, &named, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK(janus_task_id() == 0 && janus_task_name() == NULL && !janus_cancelled());
    CHECK_EQUAL(janus_panic(1), JANUS_INVALID);
    CHECK_EQUAL(janus_yield(), JANUS_INVALID);
    CHECK_EQUAL(rt_run(shuts_down, NULL), JANUS_OK);
}

/* In the child of a fork the runtime's threads do not exist: every call is refused, and none waits for them. Returns
 * the number of the first call that was not, or 0. */
static int
calls_in_a_child(void *nursery, void *channel, void *token)
{
    int64_t value = 1;
    int failed = janus_rt_is_running() ? 1 : janus_rt_get() != NULL ? 2 : 0;
    failed = failed != 0                                 ? failed
             : janus_nursery_create() != NULL            ? 3
             : janus_nursery_spawn(adds_one, NULL) != -1 ? 4
                                                         : 0;
    failed = failed != 0 ? failed : janus_nursery_await_all() != JANUS_PENDING ? 5 : 0;
    failed = failed != 0 ? failed : janus_nursery_await(nursery) != JANUS_INVALID ? 6 : 0;
    failed = failed != 0 ? failed : janus_channel_receive(channel, &value) != JANUS_INVALID ? 7 : 0;
    failed = failed != 0 ? failed : janus_channel_send_i64(channel, 1) != -1 ? 8 : 0;
    failed = failed != 0 ? failed : !janus_cancel_token_is_cancelled(token) ? 9 : 0;
    janus_cancel_token_cancel(token);
    janus_rt_shutdown();
    return failed != 0 ? failed : janus_rt_init_default() != -1 ? 10 : 0;
}

static void
forked(void)
{
    rt_up(2);
    void *nursery = janus_nursery_open(NULL), *channel = janus_channel_create_i64(0);
    void *token = janus_cancel_token_create();
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(calls_in_a_child(nursery, channel, token));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    CHECK_EQUAL(janus_nursery_await(nursery), JANUS_OK); /* the parent's runtime is as it was */
    CHECK(!janus_cancel_token_is_cancelled(token));
    janus_rt_shutdown();
    if ((child = fork()) == 0) { /* without a runtime to inherit, a child may start its own */
        int started = janus_rt_init_default();
        janus_rt_shutdown();
        _exit(started == 0 ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || SANITIZE_THREAD)); /* which allows no threads there */
}

int
main(void)
{
    up_and_down();
    forked();
    void (*const tests[])(void) = {counts,    yield_fair, tick_fair, started_not_starved,
                                   disasters, deep_sleep, outside,   identity};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    stop_with_work();
    stop_with_outside_thread();
    policies();
    idle_workers_sleep();
    return finish();
}
