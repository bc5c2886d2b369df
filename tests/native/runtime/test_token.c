/* Cancel tokens: flags, reasons, callbacks, time limits; fault 28. And invalid handles. */
#include "rt.h"

static void
tokens(void)
{
    void *root = janus_cancel_token_create(), *children[100];
    CHECK(root != NULL && !janus_cancel_token_is_cancelled(root));
    for (int i = 0; i < 100; i++) { /* more than eight children */
        children[i] = janus_cancel_token_child(i == 0 ? root : i < 50 ? children[i - 1] : root);
        CHECK(children[i] != NULL && !janus_cancel_token_is_cancelled(children[i]));
    }
    janus_cancel_token_cancel(children[20]);
    CHECK(!janus_cancel_token_is_cancelled(children[19]) && janus_cancel_token_is_cancelled(children[20]));
    CHECK(janus_cancel_token_is_cancelled(children[49]) && !janus_cancel_token_is_cancelled(children[50]));
    janus_cancel_token_destroy(children[10]); /* its children live on, and still get a cancellation from above */
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

/* TO-1, TO-2: flag, reason and check; a second cancel has no effect. */
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
    CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_PARENT); /* a destroyed token counts as cancelled */
}

/* TO-3, TO-6: a child gets the reason PARENT, whether it exists already or is made later. */
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

/* The calls of callbacks, in order. */
static int recorded[300], recorded_count;

static void
record_call(void *arg, int reason)
{
    if (recorded_count < 300) {
        recorded[recorded_count++] = (int)(intptr_t)arg * 10 + reason;
    }
}

static void
cancels_another(void *token, int reason)
{
    record_call((void *)9, reason);
    janus_cancel_token_cancel(token);
    janus_rt_shutdown(); /* no effect here */
}

/* TO-4: called once, in the order of registration, with the reason, for all tokens below; at once if the token is
 * cancelled already; never if it is destroyed. */
static void
callbacks(void)
{
    void *root = janus_cancel_token_create(), *child = janus_cancel_token_child(root),
         *other = janus_cancel_token_create();
    void *gone = janus_cancel_token_child(root);
    recorded_count = 0;
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, record_call, (void *)1), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, record_call, (void *)2), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, record_call, (void *)3), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(gone, record_call, (void *)4), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(other, record_call, (void *)5), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, cancels_another, other), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_on_cancel(root, NULL, NULL), JANUS_INVALID);
    janus_cancel_token_destroy(gone);
    CHECK_EQUAL(recorded_count, 0);
    janus_cancel_token_cancel(root);
    janus_cancel_token_cancel(root);
    const int expected[] = {10 + JANUS_REASON_USER, 20 + JANUS_REASON_USER, 90 + JANUS_REASON_USER,
                            50 + JANUS_REASON_USER, 30 + JANUS_REASON_PARENT};
    CHECK_EQUAL(recorded_count, 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(recorded[i], expected[i]);
    }
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, record_call, (void *)6), JANUS_OK);
    CHECK_EQUAL(recorded_count, 6); /* at once */
    CHECK_EQUAL(recorded[5], 60 + JANUS_REASON_PARENT);
    janus_cancel_token_destroy(root);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(other);
    CHECK(janus_rt_is_running());
}

/* Fault 28: hundreds of children and callbacks; no table can fill up. */
static void
many_callbacks(void)
{
    void *root = janus_cancel_token_create(), *children[200];
    recorded_count = 0;
    for (intptr_t i = 0; i < 200; i++) {
        children[i] = janus_cancel_token_child(i % 2 == 0 || i == 0 ? root : children[i - 1]);
        CHECK_EQUAL(janus_cancel_token_on_cancel(children[i], record_call, (void *)i), JANUS_OK);
    }
    janus_cancel_token_cancel(root);
    CHECK_EQUAL(recorded_count, 200);
    for (int i = 0; i < 200; i++) {
        janus_cancel_token_destroy(children[199 - i]);
    }
    janus_cancel_token_destroy(root);
}

/* TO-5: a time limit, its reason and its result; and the tokens below. In a task, so that virtual time passes. */
static atomic_int timeout_calls;

static void
on_timeout(void *arg, int reason)
{
    (void)arg;
    atomic_fetch_add(&timeout_calls, reason == JANUS_REASON_TIMEOUT ? 1 : 100);
}

static int64_t
runs_out_of_time(void *arg)
{
    (void)arg;
    void *token = janus_cancel_token_create(), *child = janus_cancel_token_child(token);
    void *never = janus_cancel_token_create(), *moved = janus_cancel_token_create();
    atomic_store(&timeout_calls, 0);
    MUST(janus_cancel_token_on_cancel(token, on_timeout, NULL) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(never, INT64_C(3600) * 1000000000) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(moved, 1) == JANUS_OK &&
         janus_cancel_token_cancel_after(moved, INT64_MAX) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, 1000000) == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, -1) == JANUS_INVALID);
    while (!janus_cancel_token_is_cancelled(child) || atomic_load(&timeout_calls) == 0) {
        MUST(janus_sleep_ns(100000) == JANUS_OK);
    }
    MUST(janus_cancel_token_reason(token) == JANUS_REASON_TIMEOUT && janus_cancel_token_check(token) == JANUS_TIMEOUT);
    MUST(janus_cancel_token_reason(child) == JANUS_REASON_PARENT && janus_cancel_token_check(child) == JANUS_CANCELLED);
    MUST(!janus_cancel_token_is_cancelled(never));
    MUST(atomic_load(&timeout_calls) == 1);
    janus_cancel_token_cancel(moved); /* the reason of the first cancellation stays */
    MUST(janus_cancel_token_is_cancelled(moved));
    janus_cancel_token_destroy(token);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(never); /* before its time limit */
    janus_cancel_token_destroy(moved);
    return 0;
}

static void
timeouts(void)
{
    CHECK_EQUAL(rt_run(runs_out_of_time, NULL), JANUS_OK);
}

/* A nursery's time limit, by its token: waiting tasks end, and get the reason. */
static int64_t
sleeps_until_cancelled(void *arg)
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
    MUST(janus_cancel_token_on_cancel(same, on_timeout, NULL) == JANUS_OK);
    MUST(janus_nursery_spawn(sleeps_until_cancelled, arg) == 0);
    MUST(janus_yield() == JANUS_OK);
    MUST(janus_cancel_token_cancel_after(token, 1000000) == JANUS_OK);
    MUST(janus_nursery_await_all() == JANUS_CANCELLED);
    MUST(janus_cancel_token_reason(token) == JANUS_REASON_TIMEOUT);
    while (atomic_load(&timeout_calls) == 0) { /* on the thread of the timers, after the nursery was cancelled */
        MUST(janus_sleep_ns(1000) == JANUS_OK);
    }
    MUST(atomic_load(&timeout_calls) == 1);
    janus_cancel_token_destroy(token);
    janus_cancel_token_destroy(same);
    return 0;
}

static void
nursery_timeouts(void)
{
    int reason = JANUS_REASON_TIMEOUT; /* a child that had not begun by then ends without running */
    atomic_store(&timeout_calls, 0);
    CHECK_EQUAL(rt_run(limits_its_nursery, &reason), JANUS_OK);
    CHECK_EQUAL(reason, JANUS_REASON_TIMEOUT);
}

/* The token of a nursery gets the reason of the nursery's cancellation, whatever cancelled it; also a token that is
 * fetched later. */
static int64_t
fails_at_once(void *arg)
{
    (void)arg;
    return -3;
}

static void
nursery_reasons(void)
{
    recorded_count = 0;
    CHECK(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token(), *child = janus_cancel_token_child(token);
    CHECK_EQUAL(janus_cancel_token_on_cancel(child, record_call, (void *)1), JANUS_OK);
    janus_nursery_cancel();
    CHECK(recorded_count == 1 && recorded[0] == 10 + JANUS_REASON_PARENT);
    void *late = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_reason(token), JANUS_REASON_USER);
    CHECK_EQUAL(janus_cancel_token_reason(late), JANUS_REASON_USER);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_CANCELLED);
    janus_cancel_token_destroy(late);

    CHECK(janus_nursery_create() != NULL); /* likely the same record, with a token of the nursery before */
    void *other = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_reason(other), JANUS_REASON_NONE);
    CHECK_EQUAL(janus_cancel_token_on_cancel(other, on_timeout, NULL), JANUS_OK);
    atomic_store(&timeout_calls, 0);
    CHECK_EQUAL(janus_nursery_spawn(fails_at_once, NULL), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -3);
    CHECK_EQUAL(janus_cancel_token_reason(other), JANUS_REASON_SIBLING);
    CHECK_EQUAL(atomic_load(&timeout_calls), 100);
    janus_cancel_token_destroy(other);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(token);

    CHECK(janus_nursery_create() != NULL); /* ends well: no callback is called, and the token's nursery is gone */
    void *well = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_on_cancel(well, record_call, (void *)7), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(recorded_count, 1);
    CHECK_EQUAL(janus_cancel_token_reason(well), JANUS_REASON_PARENT);
    janus_cancel_token_destroy(well);
}

/* Registered while another thread cancels: called exactly once, by one of the two. */
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
cancelled_by_shutdown(void)
{
    rt_up(2);
    recorded_count = 0;
    CHECK(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token();
    CHECK_EQUAL(janus_cancel_token_on_cancel(token, record_call, (void *)1), JANUS_OK);
    CHECK_EQUAL(janus_cancel_token_cancel_after(janus_cancel_token_create(), INT64_MAX), JANUS_OK);
    janus_rt_shutdown();
    CHECK(recorded_count == 1 && recorded[0] == 10 + JANUS_REASON_SHUTDOWN);
    CHECK(janus_cancel_token_is_cancelled(token));
}

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Null, invented, stale, of another kind: each function returns an error. */
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
    CHECK_EQUAL(janus_cancel_token_on_cancel(handle, record_call, NULL), JANUS_INVALID);
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

/* Each kind of handle, freed twice, and passed to every function that wants another kind. */
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

/* Only the task or thread that opened a nursery may await it. */
static int64_t
awaits_foreign_nursery(void *nursery)
{
    MUST(janus_nursery_await(nursery) == JANUS_INVALID);
    MUST(janus_nursery_destroy(nursery) == JANUS_AGAIN);
    return 0;
}

static void
strangers(void)
{
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(n, awaits_foreign_nursery, n), JANUS_OK);
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

/* In a deterministic runtime no task runs while time passes: the callback belongs to no task, not even to the one that
 * sleeps. */
static void
callback_outside_tasks(void)
{
    rt_up_logical(1, 7, NULL);
    void *token = janus_cancel_token_create();
    told_as = 1;
    CHECK_EQUAL(rt_run(sleeps_past_a_limit, token), JANUS_OK);
    CHECK_EQUAL(told_as, 0);
    janus_cancel_token_destroy(token);
    janus_rt_shutdown();
}

/* A chain of tokens is made link by link at the same cost: with a walk to the top for each, this test would hang. */
static void
long_chain(void)
{
    enum { LINKS = FEW(200000) };
    void **chain = calloc(LINKS, sizeof *chain);
    CHECK(chain != NULL && (chain[0] = janus_cancel_token_create()) != NULL);
    for (int i = 1; i < LINKS; i++) {
        chain[i] = janus_cancel_token_child(chain[i - 1]);
    }
    CHECK(chain[LINKS - 1] != NULL && !janus_cancel_token_is_cancelled(chain[LINKS - 1]));
    janus_cancel_token_destroy(chain[LINKS / 2]); /* the request passes through it */
    janus_cancel_token_cancel(chain[0]);
    CHECK_EQUAL(janus_cancel_token_reason(chain[LINKS - 1]), JANUS_REASON_PARENT);
    void *late = janus_cancel_token_child(chain[LINKS - 1]);
    CHECK_EQUAL(janus_cancel_token_reason(late), JANUS_REASON_PARENT);
    janus_cancel_token_destroy(late);
    for (int i = 0; i < LINKS; i++) {
        janus_cancel_token_destroy(chain[i]);
    }
    free(chain);
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
                                   strangers,       long_chain};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    cancelled_by_shutdown();
    callback_outside_tasks();
    return finish();
}
