/* Cancel tokens: flags, reasons, callbacks, time limits; fault 28. And handles that mean nothing. */
#include "rt.h"

static void
tokens(void)
{
    void *root = janus_cancel_token_create(), *children[100];
    CHECK(root != NULL && !janus_cancel_token_is_cancelled(root));
    for (int i = 0; i < 100; i++) { /* the ninth is as good as the first */
        children[i] = janus_cancel_token_child(i == 0 ? root : i < 50 ? children[i - 1] : root);
        CHECK(children[i] != NULL && !janus_cancel_token_is_cancelled(children[i]));
    }
    janus_cancel_token_cancel(children[20]);
    CHECK(!janus_cancel_token_is_cancelled(children[19]) && janus_cancel_token_is_cancelled(children[20]));
    CHECK(janus_cancel_token_is_cancelled(children[49]) && !janus_cancel_token_is_cancelled(children[50]));
    janus_cancel_token_destroy(children[10]); /* its children live on, and still hear from above */
    CHECK(janus_cancel_token_is_cancelled(children[10]) && !janus_cancel_token_is_cancelled(children[11]));
    janus_cancel_token_cancel(root);
    janus_cancel_token_cancel(root);
    for (int i = 0; i < 100; i++) {
        CHECK(janus_cancel_token_is_cancelled(children[i]));
    }
    void *late = janus_cancel_token_child(root);
    CHECK(janus_cancel_token_is_cancelled(late)); /* TO-6 */
    janus_cancel_token_destroy(root);
    janus_cancel_token_destroy(root);
    CHECK(janus_cancel_token_is_cancelled(late));
    for (int i = 0; i < 100; i++) {
        janus_cancel_token_destroy(children[i]);
    }
    janus_cancel_token_destroy(late);
    CHECK(janus_cancel_token_child(late) == NULL);
}

static void
of_a_nursery(void)
{
    CHECK(janus_nursery_get_token() == NULL);
    janus_nursery_create();
    void *token = janus_nursery_get_token();
    CHECK(token != NULL && !janus_cancel_token_is_cancelled(token));
    janus_cancel_token_cancel(token);
    CHECK(janus_nursery_is_cancelled() && janus_cancel_token_is_cancelled(token));
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_CANCELLED);
    CHECK(janus_cancel_token_is_cancelled(token));
    janus_cancel_token_destroy(token);
}

/* TO-1, TO-2: flag, reason and check; once is enough. */
static void
explicit_cancel(void)
{
    void *token = janus_cancel_token_create();
    CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_NONE);
    CHECK_EQUAL(janus_cancel_token_check(token), JANUS_OK);
    for (int i = 0; i < 3; i++) {
        janus_cancel_token_cancel(token);
        CHECK(janus_cancel_token_is_cancelled(token));
        CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_USER);
        CHECK_EQUAL(janus_cancel_token_check(token), JANUS_CANCELLED);
    }
    janus_cancel_token_destroy(token);
    CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_PARENT); /* gone: counts as cancelled */
}

/* TO-3, TO-6: what is below hears that it came from above, whether it is there already or comes later. */
static void
from_above(void)
{
    void *parent = janus_cancel_token_create(), *child = janus_cancel_token_child(parent);
    void *grandchild = janus_cancel_token_child(child), *own = janus_cancel_token_child(parent);
    janus_cancel_token_cancel(own);
    janus_cancel_token_cancel(parent);
    CHECK_EQUAL(janus_cancel_token_reason(parent), JANUS_REASON_USER);
    CHECK_EQUAL(janus_cancel_token_reason(child), JANUS_REASON_PARENT);
    CHECK_EQUAL(janus_cancel_token_reason(grandchild), JANUS_REASON_PARENT);
    CHECK_EQUAL(janus_cancel_token_reason(own), JANUS_REASON_USER); /* the first reason stays */
    void *late = janus_cancel_token_child(grandchild);
    CHECK_EQUAL(janus_cancel_token_reason(late), JANUS_REASON_PARENT);
    void *const all[] = {parent, child, grandchild, own, late};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        janus_cancel_token_destroy(all[i]);
    }
}

/* What callbacks have heard, in order. */
static int heard[300], heard_count;

static void
hears(void *arg, int reason)
{
    if (heard_count < 300) {
        heard[heard_count++] = (int)(intptr_t)arg * 10 + reason;
    }
}

static void
cancels_another(void *token, int reason)
{
    hears((void *)9, reason);
    janus_cancel_token_cancel(token);
    janus_rt_shutdown(); /* does nothing here */
}

/* TO-4: called once, in the order of asking, with the reason, for all below; at once if it is too late; never if
 * destroyed. */
static void
callbacks(void)
{
    void *root = janus_cancel_token_create(), *child = janus_cancel_token_child(root),
         *other = janus_cancel_token_create();
    void *gone = janus_cancel_token_child(root);
    heard_count = 0;
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, hears, (void *)1), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, hears, (void *)2), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, hears, (void *)3), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(gone, hears, (void *)4), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(other, hears, (void *)5), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, cancels_another, other), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, NULL, NULL), JANUS_INVALID);
    janus_cancel_token_destroy(gone);
    CHECK_EQUAL(heard_count, 0);
    janus_cancel_token_cancel(root);
    janus_cancel_token_cancel(root);
    const int expected[] = {10 + JANUS_REASON_USER, 20 + JANUS_REASON_USER, 90 + JANUS_REASON_USER,
                            50 + JANUS_REASON_USER, 30 + JANUS_REASON_PARENT};
    CHECK_EQUAL(heard_count, 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(heard[i], expected[i]);
    }
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, hears, (void *)6), JANUS_OK);
    CHECK_EQUAL(heard_count, 6); /* at once */
    CHECK_EQUAL(heard[5], 60 + JANUS_REASON_PARENT);
    janus_cancel_token_destroy(root);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(other);
    CHECK(janus_rt_is_running());
}

/* Fault 28: hundreds of children and callbacks; there is no table to run full. */
static void
many_callbacks(void)
{
    void *root = janus_cancel_token_create(), *children[200];
    heard_count = 0;
    for (intptr_t i = 0; i < 200; i++) {
        children[i] = janus_cancel_token_child(i % 2 == 0 || i == 0 ? root : children[i - 1]);
        CHECK_EQUAL(janus_cancel_token_on_cancel(children[i], hears, (void *)i), JANUS_OK);
    }
    janus_cancel_token_cancel(root);
    CHECK_EQUAL(heard_count, 200);
    for (int i = 0; i < 200; i++) {
        janus_cancel_token_destroy(children[199 - i]);
    }
    janus_cancel_token_destroy(root);
}

/* TO-5: a time limit, its reason and its answer; and what is below it. In a task, so that virtual time passes. */
static atomic_int rung;

static void
rings(void *arg, int reason)
{
    (void)arg;
    atomic_fetch_add(&rung, reason == JANUS_REASON_TIMEOUT ? 1 : 100);
}

static int64_t
runs_out_of_time(void *arg)
{
    (void)arg;
    void *token = janus_cancel_token_create(), *child = janus_cancel_token_child(token);
    void *never = janus_cancel_token_create(), *moved = janus_cancel_token_create();
    atomic_store(&rung, 0);
    MUST(janus_cancel_token_on_cancel(token, rings, NULL) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(never, INT64_C(3600) * 1000000000) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(moved, 1) == JANUS_OK &&
         janus_cancel_token_cancel_after(moved, INT64_MAX) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, 1000000) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, -1) == JANUS_INVALID);
    while (!janus_cancel_token_is_cancelled(child) || atomic_load(&rung) == 0) {
        MUST(janus_sleep_ns(100000) == JANUS_OK);
    }
    MUST(janus_cancel_token_reason(token) == JANUS_REASON_TIMEOUT && janus_cancel_token_check(token) == JANUS_TIMEOUT);
    MUST(janus_cancel_token_reason(child) == JANUS_REASON_PARENT && janus_cancel_token_check(child) == JANUS_CANCELLED);
    MUST(!janus_cancel_token_is_cancelled(never));
    MUST(atomic_load(&rung) == 1);
    janus_cancel_token_cancel(moved); /* whichever came first, its reason stays */
    MUST(janus_cancel_token_is_cancelled(moved));
    janus_cancel_token_destroy(token);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(never); /* its time has not come, and will not */
    janus_cancel_token_destroy(moved);
    return 0;
}

static void
timeouts(void)
{
    CHECK_EQUAL(rt_run(runs_out_of_time, NULL), JANUS_OK);
}

/* A nursery's time limit, by its token: those who wait end, and hear why. */
static int64_t
sleeps_till_told(void *arg)
{
    int *reason = arg;
    MUST(janus_cancel_reason() == JANUS_REASON_NONE);
    MUST(janus_sleep_ns(INT64_C(3600) * 1000000000) == JANUS_CANCELLED);
    *reason = janus_cancel_reason();
    return JANUS_CANCELLED;
}

static int64_t
limits_its_nursery(void *arg)
{
    MUST(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token(), *same = janus_nursery_get_token();
    MUST(janus_cancel_token_on_cancel(same, rings, NULL) == JANUS_OK);
    MUST(janus_nursery_spawn(sleeps_till_told, arg) == 0);
    MUST(janus_yield() == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, 1000000) == JANUS_OK);
    MUST(janus_nursery_await_all() == JANUS_CANCELLED);
    MUST(janus_cancel_token_reason(token) == JANUS_REASON_TIMEOUT);
    while (atomic_load(&rung) == 0) { /* on the thread of the timers, after the nursery was cancelled */
        MUST(janus_sleep_ns(1000) == JANUS_OK);
    }
    MUST(atomic_load(&rung) == 1);
    janus_cancel_token_destroy(token);
    janus_cancel_token_destroy(same);
    return 0;
}

static void
nursery_timeouts(void)
{
    int reason = JANUS_REASON_TIMEOUT; /* a child that had not begun by then ends without running */
    atomic_store(&rung, 0);
    CHECK_EQUAL(rt_run(limits_its_nursery, &reason), JANUS_OK);
    CHECK_EQUAL(reason, JANUS_REASON_TIMEOUT);
}

/* A token of a nursery hears why the nursery was cancelled, whoever did it; and one that is fetched afterwards. */
static int64_t
fails_at_once(void *arg)
{
    (void)arg;
    return -3;
}

static void
nursery_reasons(void)
{
    heard_count = 0;
    CHECK(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token(), *child = janus_cancel_token_child(token);
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, hears, (void *)1), JANUS_OK);
    janus_nursery_cancel();
    CHECK(heard_count == 1 && heard[0] == 10 + JANUS_REASON_PARENT);
    void *late = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_USER);
    CHECK_EQUAL(janus_cancel_token_reason(late), JANUS_REASON_USER);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_CANCELLED);
    janus_cancel_token_destroy(late);

    CHECK(janus_nursery_create() != NULL); /* likely the same record, with a token of its former life around */
    void *other = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_reason(other), JANUS_REASON_NONE);
    CHECK_EQUAL(janus_cancel_token_on_cancel(other, rings, NULL), JANUS_OK);
    atomic_store(&rung, 0);
    CHECK_EQUAL(janus_nursery_spawn(fails_at_once, NULL), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -3);
    CHECK_EQUAL(janus_cancel_token_reason(other), JANUS_REASON_SIBLING);
    CHECK_EQUAL(atomic_load(&rung), 100);
    janus_cancel_token_destroy(other);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(token);

    CHECK(janus_nursery_create() != NULL); /* ends well: nobody is called, and what it stood for is gone */
    void *well = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_on_cancel(well, hears, (void *)7), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(heard_count, 1);
    CHECK_EQUAL(janus_cancel_token_reason(well), JANUS_REASON_PARENT);
    janus_cancel_token_destroy(well);
}

/* Registered while somebody cancels: called exactly once, by one of the two. */
typedef struct {
    void *token;
    atomic_int calls;
} Race;

static void
counts(void *arg, int reason)
{
    (void)reason;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int64_t
registers(void *arg)
{
    Race *race = arg;
    for (int i = 0; i < 5; i++) {
        MUST(janus_cancel_token_on_cancel(race->token, counts, &race->calls) == JANUS_OK);
        MUST(janus_yield() == JANUS_OK);
    }
    return 0;
}

static int64_t
cancels(void *arg)
{
    Race *race = arg;
    MUST(janus_yield() == JANUS_OK);
    janus_cancel_token_cancel(race->token);
    return 0;
}

static void
registered_against_cancel(void)
{
    for (int round = 0; round < FEW(200); round++) {
        Race race = {janus_cancel_token_create(), 0};
        CHECK(janus_nursery_create() != NULL);
        CHECK_EQUAL(janus_nursery_spawn(registers, &race), 0);
        CHECK_EQUAL(janus_nursery_spawn(cancels, &race), 0);
        CHECK_EQUAL(janus_nursery_spawn(registers, &race), 0);
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
        CHECK_EQUAL(atomic_load(&race.calls), 10);
        janus_cancel_token_destroy(race.token);
    }
}

/* Stopping the runtime is a reason too. */
static void
told_by_shutdown(void)
{
    rt_up(2);
    heard_count = 0;
    CHECK(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_on_cancel(token, hears, (void *)1), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_cancel_after(janus_cancel_token_create(), INT64_MAX), JANUS_OK);
    janus_rt_shutdown();
    CHECK(heard_count == 1 && heard[0] == 10 + JANUS_REASON_SHUTDOWN);
    CHECK(janus_cancel_token_is_cancelled(token));
}

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Null, invented, stale, of another kind: each function answers. */
static void
try_everything(void *handle)
{
    int64_t value = 0;
    int32_t error = 0;
    CHECK_EQUAL(janus_nursery_spawn_in(handle, nothing, NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_nursery_await(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_nursery_destroy(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_nursery_cancel_in(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_nursery_state(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_task_cancel((janus_task)(uintptr_t)handle), JANUS_INVALID);
    CHECK_EQUAL(janus_budget_recharge_child((janus_task)(uintptr_t)handle, (janus_budget){1, 0, 0, 0, 0}), -1);
    CHECK_EQUAL(janus_channel_send(handle, &value), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_receive(handle, &value), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_try_send(handle, &value), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_close(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_destroy(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_recv_i64(handle, &error), 0);
    CHECK_EQUAL(error, -1);
    CHECK_EQUAL(janus_channel_is_closed_i64(handle), 1);
    CHECK_EQUAL(janus_channel_len_i64(handle), 0);
    CHECK_EQUAL(janus_select_add_recv(handle, handle), -1);
    CHECK_EQUAL(janus_select_add_timeout(handle, 1), -1);
    CHECK_EQUAL(janus_select_wait(handle), JANUS_INVALID);
    CHECK_EQUAL(janus_select_get_recv_value(handle, 0), 0);
    janus_select_destroy(handle);
    CHECK(janus_cancel_token_is_cancelled(handle));
    CHECK(janus_cancel_token_child(handle) == NULL);
    janus_cancel_token_cancel(handle);
    janus_cancel_token_destroy(handle);
    CHECK_EQUAL(janus_cancel_token_check(handle), JANUS_CANCELLED);
    CHECK_EQUAL(janus_cancel_token_on_cancel(handle, hears, NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_cancel_token_cancel_after(handle, 1), JANUS_INVALID);
    CHECK_EQUAL(janus_task_pause((janus_task)(uintptr_t)handle), JANUS_INVALID);
    CHECK_EQUAL(janus_task_resume((janus_task)(uintptr_t)handle), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_try_receive(handle, &value), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_send_i64(handle, 1), -1);
    CHECK_EQUAL(janus_channel_try_send_i64(handle, 1), -1);
    CHECK_EQUAL(janus_channel_try_recv_i64(handle, &value), -1);
    CHECK_EQUAL(janus_select_add_send(handle, handle, 1), -1);
    CHECK_EQUAL(janus_select_add_default(handle), -1);
    CHECK_EQUAL(janus_select_case(handle), -1);
    CHECK_EQUAL(janus_nursery_spawn_with(handle, nothing, NULL, NULL, NULL), JANUS_INVALID);
    janus_scheduler_shutdown(handle);
    janus_channel_close_i64(handle);
    janus_channel_destroy_i64(handle);
}

/* Each kind of handle, freed twice, and handed to everything that wants another kind. */
static void
freed_twice(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_INVALID); /* it is awaited once */
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_INVALID);
    void *c = janus_channel_create(8, 1);
    CHECK_EQUAL(janus_channel_destroy(c), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(c), JANUS_INVALID);
    void *s = janus_select_create(), *t = janus_cancel_token_create(), *runtime = janus_rt_get();
    CHECK_EQUAL(janus_nursery_state(s), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_close(t), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_close(runtime), JANUS_INVALID);
    CHECK(janus_cancel_token_is_cancelled(s) && janus_cancel_token_is_cancelled(runtime));
    CHECK_EQUAL(janus_select_add_recv(s, t), -1);
    for (int i = 0; i < 2; i++) {
        janus_select_destroy(s);
        janus_cancel_token_destroy(t);
    }
    try_everything(s);
    try_everything(t);
    janus_task task = 0;
    n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, nothing, NULL, NULL, &task), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    try_everything((void *)(uintptr_t)task); /* of a task that has ended */
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

static void
handles(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    void *c = janus_channel_create_i64(1);
    CHECK_EQUAL(janus_channel_destroy(c), JANUS_OK);
    void *reused = janus_channel_create_i64(1); /* the same record, another generation */
    CHECK(reused != c);
    void *const bad[] = {NULL,
                         n,
                         c,
                         (void *)8,
                         (void *)&handles,
                         (void *)(intptr_t)-1,
                         (void *)((uintptr_t)reused + 1),
                         (void *)((uintptr_t)reused ^ ((uintptr_t)1 << 56)),
                         (void *)((uintptr_t)reused ^ ((uintptr_t)1 << 32))};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        try_everything(bad[i]);
    }
    CHECK_EQUAL(janus_channel_send_i64(reused, 3), 0);
    CHECK_EQUAL(janus_channel_send(reused, NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_channel_destroy(reused), JANUS_OK);
    CHECK_EQUAL(janus_nursery_result(NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_charge(NULL), JANUS_INVALID);
    CHECK_EQUAL(janus_rt_init_with(NULL), JANUS_INVALID);
}

/* A nursery is awaited by whoever opened it and by nobody else. */
static int64_t
awaits_a_strangers(void *nursery)
{
    MUST(janus_nursery_await(nursery) == JANUS_INVALID);
    MUST(janus_nursery_destroy(nursery) == JANUS_AGAIN);
    return 0;
}

static void
strangers(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(n, awaits_a_strangers, n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

static uint64_t told_as;

static void
asks_who_it_is(void *arg, int reason)
{
    (void)arg;
    (void)reason;
    told_as = janus_task_id();
}

static int64_t
sleeps_past_a_limit(void *token)
{
    MUST(janus_cancel_token_on_cancel(token, asks_who_it_is, NULL) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, 1000) == JANUS_OK);
    return janus_sleep_ns(1000000);
}

/* In a deterministic runtime nobody runs while time passes: the callback is no task's, least of all that of one that
 * sleeps. */
static void
told_by_nobody(void)
{
    rt_up_logical(1, 7, NULL);
    void *token = janus_cancel_token_create();
    told_as = 1;
    CHECK_EQUAL(rt_run(sleeps_past_a_limit, token), JANUS_OK);
    CHECK_EQUAL(told_as, 0);
    janus_cancel_token_destroy(token);
    janus_rt_shutdown();
}

int
main(void)
{
    try_everything(NULL); /* without a runtime */
    try_everything((void *)(intptr_t)-1);
    CHECK_EQUAL(janus_nursery_spawn(nothing, NULL), -1);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_PENDING);
    CHECK_EQUAL(janus_nursery_task_count(), 0);
    janus_nursery_cancel();
    CHECK(!janus_rt_is_running());
    void (*const tests[])(void) = {tokens,          of_a_nursery,   explicit_cancel, from_above,
                                   callbacks,       many_callbacks, timeouts,        nursery_timeouts,
                                   nursery_reasons, freed_twice,    handles,         registered_against_cancel,
                                   strangers};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    told_by_shutdown();
    told_by_nobody();
    return finish();
}
