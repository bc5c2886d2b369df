/* Supervision: held tasks are found and recharged, paused tasks stay paused; profiles; the counters of each worker. */
#include "rt.h"

#include <unistd.h>

static int64_t
ticks_ten(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    for (int i = 0; i < 10; i++) {
        int answer = janus_tick(ticks);
        if (answer != JANUS_OK) {
            return answer;
        }
    }
    return 10;
}

/* A supervisor finds its held children, a different one each time, recharges some and cancels one. TK-5. */
static int64_t
supervises(void *arg)
{
    int64_t *values = arg;
    janus_budget purse = {1000, 0, 10, 0, 0}, three = {3, 0, 0, 0, 0};
    janus_nursery_options holding = {.size = sizeof holding, .budget = &purse, .hold = true};
    janus_task tasks[3], seen[6];
    MUST(janus_supervisor_poll_exhausted() == 0); /* no nursery is open */
    void *n = janus_nursery_open(&holding);
    MUST(n != NULL && janus_supervisor_poll_exhausted() == 0);
    for (int i = 0; i < 3; i++) {
        janus_task_options options = {.size = sizeof options, .budget = &three, .value_out = &values[i]};
        MUST(janus_nursery_spawn_with(n, ticks_ten, NULL, &options, &tasks[i]) == JANUS_OK);
    }
    for (int found = 0; found < 3;) { /* until all of them hold */
        MUST(janus_yield() == JANUS_OK);
        found = 0;
        for (int i = 0; i < 6; i++) {
            seen[i] = janus_supervisor_poll_exhausted();
        }
        for (int i = 0; i < 3; i++) {
            found += seen[0] == tasks[i] || seen[1] == tasks[i] || seen[2] == tasks[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        MUST(seen[i] == seen[i + 3]); /* in turn */
    }
    MUST(janus_task_cancel(tasks[0]) == JANUS_OK);
    for (int given = 0; given < 6;) {
        janus_task poor = janus_supervisor_poll_exhausted();
        given += poor != tasks[0] && poor != 0 && janus_budget_recharge_child(poor, three) == 0;
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_nursery_await(n) == JANUS_OK);
    return janus_nursery_destroy(n);
}

static void
supervision(void)
{
    int64_t values[3] = {0, 0, 0};
    CHECK_EQUAL(rt_run(supervises, values), JANUS_OK);
    CHECK(values[0] == JANUS_CANCELLED && values[1] == 10 && values[2] == 10);
    CHECK_EQUAL(janus_supervisor_poll_exhausted(), 0);
}

/* ---- pausing */

typedef struct {
    atomic_int rounds;
    atomic_int stop;
} Runner;

static int64_t
goes_round(void *arg)
{
    Runner *runner = arg;
    while (atomic_load(&runner->stop) == 0) {
        atomic_fetch_add(&runner->rounds, 1);
        MUST(janus_yield() == JANUS_OK);
    }
    return atomic_load(&runner->rounds);
}

static int64_t
pauses_another(void *arg)
{
    Runner *runner = arg;
    janus_task task;
    void *n = janus_nursery_open(NULL);
    MUST(janus_nursery_spawn_with(n, goes_round, runner, NULL, &task) == JANUS_OK);
    while (atomic_load(&runner->rounds) < 3) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_task_resume(task) == JANUS_INVALID); /* it was not asked to pause */
    for (int round = 0; round < 5; round++) {
        MUST(janus_task_pause(task) == JANUS_OK && janus_task_pause(task) == JANUS_OK);
        int before;
        do { /* it is paused if it made no round while this task yielded a hundred times */
            before = atomic_load(&runner->rounds);
            for (int i = 0; i < 100; i++) {
                MUST(janus_yield() == JANUS_OK);
            }
        } while (atomic_load(&runner->rounds) != before);
        MUST(janus_task_resume(task) == JANUS_OK);
        while (atomic_load(&runner->rounds) == before) {
            MUST(janus_yield() == JANUS_OK);
        }
    }
    atomic_store(&runner->stop, 1);
    MUST(janus_nursery_await(n) == JANUS_OK);
    MUST(janus_task_pause(task) == JANUS_INVALID && janus_task_resume(task) == JANUS_INVALID);
    return janus_nursery_destroy(n);
}

static void
pause_and_resume(void)
{
    Runner runner = {0, 0};
    CHECK_EQUAL(rt_run(pauses_another, &runner), JANUS_OK);
    CHECK(atomic_load(&runner.rounds) >= 8);
}

/* A paused task can be cancelled: it gets the code, and its parent does not wait forever. */
static int64_t
gets_cancelled(void *arg)
{
    (void)arg;
    for (;;) {
        int answer = janus_yield();
        if (answer != JANUS_OK) {
            MUST(answer == JANUS_CANCELLED);
            return answer;
        }
    }
}

static int64_t
cancels_paused(void *arg)
{
    (void)arg;
    janus_task one, two;
    void *n = janus_nursery_open(NULL);
    MUST(janus_nursery_spawn_with(n, gets_cancelled, NULL, NULL, &one) == JANUS_OK);
    MUST(janus_nursery_spawn_with(n, gets_cancelled, NULL, NULL, &two) == JANUS_OK);
    MUST(janus_task_pause(one) == JANUS_OK && janus_task_pause(two) == JANUS_OK);
    for (int i = 0; i < 20; i++) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_task_cancel(one) == JANUS_OK); /* by its handle; the other one with the nursery */
    int paused = janus_task_pause(one);
    MUST(paused == JANUS_CANCELLED || paused == JANUS_INVALID); /* a cancel request is not revoked */
    MUST(janus_nursery_cancel_in(n) == JANUS_OK);
    MUST(janus_nursery_await(n) == JANUS_CANCELLED);
    return janus_nursery_destroy(n);
}

static void
pause_and_cancel(void)
{
    CHECK_EQUAL(rt_run(cancels_paused, NULL), JANUS_OK);
    CHECK(rt_statistics().cancelled >= 2);
}

/* A late request, for a task that has ended, does not affect the next one in the same record. */
static int64_t
late_requests(void *arg)
{
    (void)arg;
    janus_task before = 0;
    for (int i = 0; i < 100; i++) {
        janus_task task;
        int64_t value = 0;
        janus_task_options options = {.size = sizeof options, .value_out = &value};
        void *n = janus_nursery_open(NULL);
        MUST(janus_nursery_spawn_with(n, ticks_ten, NULL, &options, &task) == JANUS_OK);
        MUST(janus_task_cancel(before) == JANUS_INVALID && janus_task_pause(before) == JANUS_INVALID);
        MUST(janus_nursery_await(n) == JANUS_OK && value == 10);
        MUST(janus_nursery_destroy(n) == JANUS_OK);
        before = task;
    }
    return 0;
}

static void
late(void)
{
    CHECK_EQUAL(rt_run(late_requests, NULL), JANUS_OK);
}

/* ---- profiles: SO-3, SO-5 */

static int64_t
tries_to_spawn(void *arg)
{
    MUST(janus_nursery_create() != NULL);
    int spawned = janus_nursery_spawn(ticks_ten, NULL);
    MUST(janus_nursery_await_all() == JANUS_OK);
    return spawned == (int)(intptr_t)arg ? 0 : -50;
}

static int64_t
counts_turns(void *arg)
{
    janus_ticks *ticks = janus_ticks_get();
    uint64_t *yields = arg;
    janus_statistics now;
    for (int i = 0; i < 10240; i++) {
        MUST(janus_tick(ticks) == JANUS_OK);
    }
    MUST(janus_rt_statistics(&now) == JANUS_OK);
    *yields = now.yielded;
    return 0;
}

static void
profiles(void)
{
    janus_budget core = janus_budget_of_profile(JANUS_PROFILE_CORE),
                 service = janus_budget_of_profile(JANUS_PROFILE_SERVICE);
    janus_budget cluster = janus_budget_of_profile(JANUS_PROFILE_CLUSTER), child = janus_budget_of_child();
    CHECK(core.ops == 0 && core.memory == 0 && core.spawns == 0 && core.channel_ops == 0 && core.syscalls == 0);
    CHECK(service.ops == 100000 && service.memory == 10 << 20 && service.spawns == 100);
    CHECK(service.channel_ops == 1000 && service.syscalls == 100);
    CHECK(cluster.ops == 1000000 && cluster.memory == 100 << 20 && cluster.spawns == 1000);
    CHECK(cluster.channel_ops == 10000 && cluster.syscalls == 1000);
    CHECK(child.ops == 10000 && child.memory == 1 << 20 && child.spawns == 0 && child.channel_ops == 100 &&
          child.syscalls == 10);

    janus_rt_options options = {.size = sizeof options, .worker_count = 2, .profile = JANUS_PROFILE_CORE};
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_INVALID); /* this profile has no scheduler */
    options.profile = 17;
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_INVALID);
    options.profile = JANUS_PROFILE_SOVEREIGN;
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_INVALID); /* nothing was granted */
    CHECK(!janus_rt_is_running());

    options.budget = &service;
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
    CHECK_EQUAL(rt_run(tries_to_spawn, (void *)(intptr_t)-1), JANUS_OK); /* not granted to it */
    janus_budget grant = {1000, 0, 5, 0, 0};
    janus_task_options granted = {.size = sizeof granted, .budget = &grant};
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, tries_to_spawn, (void *)(intptr_t)0, &granted, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    janus_rt_shutdown();

    uint64_t turns[2];
    const uint32_t which[] = {JANUS_PROFILE_SERVICE, JANUS_PROFILE_CLUSTER};
    for (int i = 0; i < 2; i++) {
        options =
            (janus_rt_options){.size = sizeof options, .worker_count = 1, .deterministic = true, .profile = which[i]};
        CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
        CHECK_EQUAL(rt_run(counts_turns, &turns[i]), JANUS_OK);
        janus_rt_shutdown();
    }
    CHECK_EQUAL(turns[0], 9);  /* ten turns of 1024 */
    CHECK_EQUAL(turns[1], 19); /* twenty of 512 */
}

/* ---- WK-3: the counters of the workers add up; WORKER-5: a worker whose task crashed is repaired and counted */

static int64_t
panics(void *arg)
{
    (void)arg;
    janus_panic(-1);
    return 0;
}

static int64_t
devours(void *arg)
{
    volatile char some[512];
    some[0] = some[511] = 1;
    return arg == NULL ? devours(NULL) + some[0] + some[511] : 0;
}

static void
workers_are_repaired(void)
{
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(rt_run(panics, NULL), JANUS_PANICKED);
        CHECK_EQUAL(rt_run(devours, NULL), JANUS_PANICKED);
        CHECK_EQUAL(rt_run(ticks_ten, NULL), JANUS_OK);
    }
    janus_statistics all = rt_statistics(), one, sum = {0};
    CHECK_EQUAL(all.panicked, 10);
    CHECK_EQUAL(all.repaired, 10);
    uint32_t workers = 0;
    while (janus_rt_worker_statistics(workers, &one) == JANUS_OK) {
        workers++;
        sum.dispatched += one.dispatched;
        sum.finished += one.finished;
        sum.panicked += one.panicked;
        sum.repaired += one.repaired;
        CHECK(one.threads == 0);
    }
    CHECK(workers >= 1 && workers <= 4);
    CHECK(sum.dispatched == all.dispatched && sum.finished == all.finished);
    CHECK(sum.panicked == all.panicked && sum.repaired == all.repaired);
    CHECK_EQUAL(janus_rt_worker_statistics(0, NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_rt_statistics(NULL), JANUS_INVALID);
}

/* ---- threads */

static void
one_worker_per_processor(void)
{
    janus_statistics one;
    long processors = sysconf(_SC_NPROCESSORS_ONLN), workers = 0;
    CHECK_EQUAL(janus_rt_init_default(), 0);
    while (janus_rt_worker_statistics((uint32_t)workers, &one) == JANUS_OK) {
        workers++;
    }
    CHECK_EQUAL(workers, processors);
    janus_rt_shutdown();
}

static atomic_int arrived;

static int64_t
meets(void *how_many)
{
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < (int)(intptr_t)how_many) { /* no yield: it keeps its worker */
    }
    return 0;
}

static int64_t
sleeps(void *nanoseconds)
{
    return janus_sleep_ns((int64_t)(intptr_t)nanoseconds);
}

/* Four threads have nothing to do for a fifth of a second, and an outside thread awaits. Each worker tries again for up
 * to a millisecond, and then sleeps until it is called. A worker that looked again every millisecond would do so 800
 * times. */
static void
idle_workers_use_no_processor(void)
{
    rt_up(4);
    atomic_store(&arrived, 0);
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(janus_nursery_spawn(meets, (void *)4), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_statistics before = rt_statistics();
    CHECK_EQUAL(before.threads, 4);
    CHECK_EQUAL(rt_run(sleeps, (void *)200000000), JANUS_OK);
    CHECK(rt_statistics().sleeps - before.sleeps < 200);
    janus_rt_shutdown();
}

int
main(void)
{
    void (*const tests[])(void) = {supervision, pause_and_resume, pause_and_cancel, late, workers_are_repaired};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    profiles();
    one_worker_per_processor();
    idle_workers_use_no_processor();
    return finish();
}
