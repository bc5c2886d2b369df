/* Cancel tokens: TO-1 to TO-3, TO-6; fault 28. And handles that mean nothing. */
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
    void *const bad[] = {NULL, n, c, (void *)8, (void *)&handles, (void *)(intptr_t)-1, (void *)((uintptr_t)reused + 1),
                         (void *)((uintptr_t)reused ^ ((uintptr_t)1 << 56)), (void *)((uintptr_t)reused ^ ((uintptr_t)1 << 32))};
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
    void (*const tests[])(void) = {tokens, of_a_nursery, handles, strangers};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    return finish();
}
