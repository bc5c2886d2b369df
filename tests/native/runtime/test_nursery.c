/* Nurseries: results, failures, cancellation, ownership. A build with BURSAR_FAST_PATHS=OFF must give the same results
 * (FASTPATH-2). */
#include "rt.h"

static int64_t
returns(void *value)
{
    return (int64_t)(intptr_t)value;
}

static int64_t
panics(void *arg)
{
    (void)arg;
    janus_panic(-17);
    return 0;
}

/* NU-6, NU-7, NI-4: each kind of ending is reported as that kind. */
static void
results(void)
{
    CHECK_EQUAL(rt_run(returns, (void *)(intptr_t)5), JANUS_OK);
    CHECK_EQUAL(rt_result().kind, JANUS_KIND_OK);
    CHECK_EQUAL(rt_run(returns, (void *)(intptr_t)-42), -42);
    janus_result failed = rt_result();
    CHECK(failed.kind == JANUS_KIND_FAILED && failed.code == -42 && failed.task_id != 0);
    CHECK_EQUAL(rt_run(returns, (void *)(intptr_t)-1), -1); /* the same code as cancelled, but the kind differs */
    CHECK_EQUAL(rt_result().kind, JANUS_KIND_FAILED);
    CHECK_EQUAL(rt_run(panics, NULL), JANUS_PANICKED);
    CHECK(rt_result().kind == JANUS_KIND_PANICKED && rt_result().code == -17);
    CHECK(janus_nursery_create() != NULL);
    janus_nursery_cancel();
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_CANCELLED); /* NU-11 */
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_PENDING);   /* no nursery is open */
}

static int32_t
minus_one(void)
{
    return -1;
}

static int32_t
negates(void *arg)
{
    return -*(int32_t *)arg;
}

static int64_t
no_argument(void)
{
    return -8;
}

/* NU-3; fault 30: an i32 of -1 is a failure, not 4294967295. */
static void
adapters(void)
{
    int32_t seven = 7;
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn_noarg_i32(minus_one), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -1);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn_i32(negates, &seven), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -7);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn_noarg(no_argument), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -8);
}

static atomic_int done_calls;

static void
on_done(void *arg, const janus_result *result)
{
    *(janus_result *)arg = *result;
    atomic_fetch_add(&done_calls, 1);
}

/* Fault 31: a task's value is what it returned. */
static void
values(void)
{
    int64_t value = 0;
    janus_result result;
    janus_task task;
    janus_task_options options = {
        .size = sizeof options, .name = "seven", .value_out = &value, .done = on_done, .done_arg = &result};
    void *n = janus_nursery_open(NULL);
    atomic_store(&done_calls, 0);
    CHECK_EQUAL(janus_nursery_spawn_with(n, returns, (void *)(intptr_t)7, &options, &task), JANUS_OK);
    CHECK(task != 0);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(value, 7);
    CHECK(atomic_load(&done_calls) == 1 && result.kind == JANUS_KIND_OK && result.code == 7);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* NU-1, NU-4, NU-8 to NU-11, NI-5, NI-6, NI-8: the five states; terminal states are reached in the await. */
static void
states(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_state(n), 0);
    CHECK_EQUAL(janus_nursery_task_count(), 0);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_AGAIN); /* not awaited */
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_state(n), 3);
    CHECK_EQUAL(janus_nursery_spawn_in(n, returns, NULL), JANUS_CLOSED);
    CHECK_EQUAL(janus_nursery_cancel_in(n), JANUS_OK); /* NC-3: no effect */
    CHECK_EQUAL(janus_nursery_state(n), 3);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);

    n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_cancel_in(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_cancel_in(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_state(n), 2); /* unchanged: it was not awaited */
    CHECK_EQUAL(janus_nursery_spawn_in(n, returns, NULL), JANUS_CLOSED);
    CHECK(janus_nursery_is_cancelled());
    CHECK_EQUAL(janus_nursery_await(n), JANUS_CANCELLED);
    CHECK_EQUAL(janus_nursery_state(n), 4);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK(janus_nursery_is_cancelled()); /* no nursery is open */
}

static atomic_int begun, cleaned_up;

static int64_t
waits_for_ever(void *channel)
{
    int64_t value;
    atomic_fetch_add(&begun, 1);
    int error = janus_channel_receive(channel, &value);
    atomic_fetch_add(&cleaned_up, 1); /* fault 16: its own code cleans up */
    MUST(error == JANUS_CANCELLED && janus_cancelled());
    MUST(janus_channel_receive(channel, &value) == JANUS_CANCELLED); /* a second time */
    return JANUS_CANCELLED;
}

static int64_t
spins(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    atomic_fetch_add(&begun, 1);
    while (janus_tick(ticks) == JANUS_OK) {
    }
    atomic_fetch_add(&cleaned_up, 1);
    return JANUS_CANCELLED;
}

/* Until so many others have begun, and have most probably begun to wait. */
static int64_t
until_begun(void *count)
{
    while (atomic_load(&begun) < (int)(intptr_t)count) {
        MUST(janus_yield() == JANUS_OK);
    }
    for (int i = 0; i < 20; i++) {
        MUST(janus_yield() == JANUS_OK);
    }
    return -99;
}

static int64_t
fails(void *arg)
{
    (void)arg;
    janus_yield();
    return -99;
}

/* NC-1, NU-8; faults 10 and 16: blocked and spinning children end, and each cleans up. */
static void
cancel_blocked(void)
{
    void *channel = janus_channel_create_i64(0);
    void *n = janus_nursery_open(NULL);
    atomic_store(&begun, 0);
    atomic_store(&cleaned_up, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(janus_nursery_spawn_in(n, waits_for_ever, channel), JANUS_OK);
    }
    CHECK_EQUAL(janus_nursery_spawn_in(n, spins, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, until_begun, (void *)(intptr_t)11), JANUS_OK);
    /* NU-12, NC-2; fault 17: the failure cancels the siblings, and is the result although they were cancelled. */
    CHECK_EQUAL(janus_nursery_await(n), -99);
    CHECK_EQUAL(rt_result().kind, JANUS_KIND_FAILED);
    CHECK_EQUAL(atomic_load(&cleaned_up), 11);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(channel), JANUS_OK);
}

/* NU-12: also a failure after the cancellation, in a child that was cancelled. */
static int64_t
fails_when_cancelled(void *arg)
{
    (void)arg;
    atomic_fetch_add(&begun, 1);
    while (janus_yield() == JANUS_OK) {
    }
    return -98;
}

static void
failure_beats_cancellation(void)
{
    void *n = janus_nursery_open(NULL);
    atomic_store(&begun, 0);
    CHECK_EQUAL(janus_nursery_spawn_in(n, fails_when_cancelled, NULL), JANUS_OK);
    CHECK_EQUAL(rt_run(until_begun, (void *)(intptr_t)1), -99);
    CHECK_EQUAL(janus_nursery_cancel_in(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), -98);
    CHECK_EQUAL(rt_result().kind, JANUS_KIND_FAILED);
    CHECK_EQUAL(janus_nursery_state(n), 4);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

static int64_t
sleeps_long(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_C(3600) * 1000000000);
}

static int64_t
opens_and_leaves(void *channel)
{
    janus_nursery_create();
    MUST(janus_nursery_spawn(waits_for_ever, channel) == 0);
    MUST(janus_yield() == JANUS_OK);
    return 3; /* without awaiting: the child is cancelled and awaited, no orphan */
}

static int64_t
opens_and_panics(void *channel)
{
    janus_nursery_create();
    MUST(janus_nursery_spawn(waits_for_ever, channel) == 0);
    janus_panic(-4);
    return 0;
}

static void
no_orphans(void)
{
    void *channel = janus_channel_create_i64(0);
    CHECK_EQUAL(rt_run(opens_and_leaves, channel), JANUS_OK);
    CHECK_EQUAL(rt_run(opens_and_panics, channel), JANUS_PANICKED);
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.finished, now.spawned);
    janus_channel_destroy(channel);
}

/* NU-13 to NU-18; fault 18: a request passes down through every level. */
static int64_t
descends(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    if (depth == 0) {
        atomic_fetch_add(&begun, 1);
        int64_t ended = sleeps_long(NULL);
        atomic_fetch_add(&cleaned_up, 1);
        return ended;
    }
    janus_nursery_create();
    MUST(janus_nursery_spawn(descends, (void *)(intptr_t)(depth - 1)) == 0);
    int64_t ended = janus_nursery_await_all();
    janus_result result;
    MUST(janus_nursery_result(&result) == JANUS_OK);
    MUST(ended == JANUS_CANCELLED && result.kind == JANUS_KIND_CANCELLED && janus_cancelled());
    atomic_fetch_add(&cleaned_up, 1);
    return ended;
}

static int64_t
cancels_when_begun(void *nursery)
{
    MUST(until_begun((void *)(intptr_t)1) == -99);
    return janus_nursery_cancel_in(nursery);
}

static int64_t
cancels_later(void *nursery)
{
    for (int i = 0; i < 100; i++) {
        janus_yield();
    }
    return janus_nursery_cancel_in(nursery);
}

static void
nested(void)
{
    atomic_store(&begun, 0);
    atomic_store(&cleaned_up, 0);
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(n, descends, (void *)(intptr_t)50), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, cancels_when_begun, n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_CANCELLED);
    CHECK_EQUAL(atomic_load(&cleaned_up), 51);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* One of several tasks is cancelled; the others are not. */
static int64_t
counts_to(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        MUST(janus_yield() == JANUS_OK);
    }
    return (int64_t)(intptr_t)arg;
}

static void
cancel_one(void)
{
    janus_task task, other;
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, sleeps_long, NULL, NULL, &task), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_with(n, counts_to, NULL, NULL, &other), JANUS_OK);
    CHECK_EQUAL(janus_task_cancel(task), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(rt_statistics().cancelled > 0, true);
    CHECK_EQUAL(janus_task_cancel(task), JANUS_INVALID); /* it has ended */
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* Fault 29: each task has its own stack of nurseries, however tasks are interleaved or moved. */
static int64_t
nests(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    void *mine = janus_nursery_create();
    MUST(mine != NULL);
    for (int i = 0; i < 3; i++) {
        MUST(janus_nursery_task_count() == i || janus_nursery_task_count() < i);
        MUST(janus_nursery_spawn(depth == 0 ? returns : nests, (void *)(intptr_t)(depth == 0 ? 0 : depth - 1)) == 0);
        MUST(janus_yield() == JANUS_OK);
        MUST(janus_nursery_state(mine) == 0);
    }
    MUST(janus_nursery_await_all() == JANUS_OK);
    MUST(janus_nursery_state(mine) == JANUS_INVALID);
    MUST(janus_nursery_await_all() == JANUS_PENDING);
    return 0;
}

static void
stack_of_the_task(void)
{
    CHECK_EQUAL(rt_run(nests, (void *)(intptr_t)5), JANUS_OK);
}

static int64_t
spawns_many(void *arg)
{
    int64_t count = (int64_t)(intptr_t)arg;
    for (int64_t round = 0; round < 20; round++) {
        janus_nursery_create();
        for (int64_t i = 0; i < count; i++) {
            MUST(janus_nursery_spawn(returns, NULL) == 0);
        }
        MUST(janus_nursery_await_all() == JANUS_OK);
    }
    return 0;
}

static int64_t
says_that_it_runs(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
    return janus_yield();
}

/* Not a child that its owner runs itself: it has begun before the await, and may end on any worker. */
static int64_t
waits_for_one(void *arg)
{
    for (int64_t round = (int64_t)(intptr_t)arg; round > 0; round--) {
        atomic_int runs = 0;
        janus_nursery_create();
        MUST(janus_nursery_spawn(says_that_it_runs, &runs) == 0);
        while (atomic_load(&runs) == 0) {
            MUST(janus_yield() == JANUS_OK);
        }
        MUST(janus_nursery_await_all() == JANUS_OK);
    }
    return 0;
}

/* Faults 5 and 24: far more than a hundred children; nurseries are freed at the moment when the last child ends. */
static void
many_short(void)
{
    CHECK_EQUAL(rt_run(spawns_many, (void *)(intptr_t)FEW(20000)), JANUS_OK);
    CHECK_EQUAL(rt_run(spawns_many, (void *)(intptr_t)1), JANUS_OK);
    CHECK_EQUAL(rt_run(waits_for_one, (void *)(intptr_t)FEW(5000)), JANUS_OK);
}

/* Fault 7: a task that is spawned while the nursery is cancelled is either refused or cancelled. */
static int64_t
spawns_until_refused(void *nursery)
{
    while (janus_nursery_spawn_in(nursery, sleeps_long, NULL) == JANUS_OK) {
        janus_yield();
    }
    return 0;
}

static void
spawn_against_cancel(void)
{
    for (int round = 0; round < 20; round++) {
        void *n = janus_nursery_open(NULL), *m = janus_nursery_open(NULL);
        CHECK_EQUAL(janus_nursery_spawn_in(m, spawns_until_refused, n), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(m, spawns_until_refused, n), JANUS_OK);
        CHECK_EQUAL(janus_nursery_spawn_in(m, cancels_later, n), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(m), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(n), JANUS_CANCELLED);
        CHECK_EQUAL(janus_nursery_destroy(m), JANUS_OK);
        CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    }
}

/* A nursery with `keep_going`: failures are noted, siblings live. */
static void
siblings(void)
{
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    int64_t value = 0;
    janus_task_options out = {.size = sizeof out, .value_out = &value};
    void *n = janus_nursery_open(&options);
    CHECK_EQUAL(janus_nursery_spawn_in(n, fails, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_with(n, counts_to, (void *)(intptr_t)11, &out, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), -99);
    CHECK_EQUAL(value, 11);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* A cancelled task that goes on calling is cut off: its parent does not wait forever. */
static int64_t
ignores_cancellation(void *arg)
{
    (void)arg;
    for (;;) {
        (void)janus_yield();
    }
    return 0;
}

static void
cut_off(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(n, ignores_cancellation, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, cancels_later, n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_CANCELLED);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

int
main(void)
{
    void (*const tests[])(void) = {
        results,        adapters,
        values,         states,
        cancel_blocked, failure_beats_cancellation,
        no_orphans,     nested,
        cancel_one,     stack_of_the_task,
        many_short,     spawn_against_cancel,
        siblings,       cut_off,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    return finish();
}
