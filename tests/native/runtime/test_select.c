/* Select: first come, fair, default, monotonic timeout, closed channels. Fault 27. */
#include "rt.h"

static void
defaults_and_timeouts(void)
{
    void *c = janus_channel_create_i64(1);
    void *s = janus_select_create();
    CHECK_EQUAL(janus_select_wait(s), JANUS_INVALID); /* it would wait forever */
    CHECK_EQUAL(janus_select_add_recv(s, c), 0);
    CHECK_EQUAL(janus_select_add_default(s), 1);
    CHECK_EQUAL(janus_select_add_default(s), -1);
    CHECK_EQUAL(janus_select_wait(s), 1);
    CHECK_EQUAL(janus_channel_send_i64(c, 5), 0);
    CHECK_EQUAL(janus_select_wait(s), 0);
    CHECK_EQUAL(janus_select_get_recv_value(s, 0), 5);
    janus_select_destroy(s);
    s = janus_select_create();
    CHECK_EQUAL(janus_select_add_timeout(s, 1), 0);
    CHECK_EQUAL(janus_select_add_recv(s, c), 1);
    CHECK_EQUAL(janus_select_wait(s), 0);
    CHECK_EQUAL(janus_channel_send_i64(c, INT64_MIN), 0);
    CHECK_EQUAL(janus_select_wait(s), 1);
    CHECK_EQUAL(janus_select_get_recv_value(s, 1), INT64_MIN);
    janus_channel_close_i64(c);
    CHECK_EQUAL(janus_select_wait(s), JANUS_CLOSED); /* never a value, never a success */
    CHECK_EQUAL(janus_select_case(s), 1);
    janus_select_destroy(s);
    CHECK_EQUAL(janus_select_wait(s), JANUS_INVALID);
    s = janus_select_create();
    CHECK_EQUAL(janus_select_add_send(s, c, 1), 0);
    CHECK_EQUAL(janus_select_wait(s), JANUS_CLOSED);
    janus_channel_destroy_i64(c);
    CHECK_EQUAL(janus_select_wait(s), JANUS_INVALID);
    CHECK_EQUAL(janus_select_add_recv(s, c), -1);
    janus_select_destroy(s);
}

typedef struct {
    void *a, *b, *out;
    int64_t rounds;
} Three;

static int64_t
feeds(void *arg)
{
    Three *three = arg;
    for (int64_t i = 0; i < three->rounds; i++) {
        MUST(janus_channel_send_i64(three->a, i) == 0);
    }
    return 0;
}

/* One select sends and receives on rendezvous channels at once; every value passes exactly once. */
static int64_t
selects(void *arg)
{
    Three *three = arg;
    int64_t sent = 0, sum_a = 0, sum_b = 0, got_a = 0, got_b = 0;
    while (sent < three->rounds || got_a < three->rounds || got_b < three->rounds) {
        void *s = janus_select_create();
        MUST(s != NULL);
        int32_t a = got_a < three->rounds ? janus_select_add_recv(s, three->a) : -9;
        int32_t b = got_b < three->rounds ? janus_select_add_recv(s, three->b) : -9;
        int32_t out = sent < three->rounds ? janus_select_add_send(s, three->out, sent) : -9;
        int32_t done = janus_select_wait(s);
        MUST(done >= 0);
        if (done == a) {
            sum_a += janus_select_get_recv_value(s, a);
            got_a++;
        } else if (done == b) {
            sum_b += janus_select_get_recv_value(s, b);
            got_b++;
        } else {
            MUST(done == out);
            sent++;
        }
        janus_select_destroy(s);
    }
    int64_t all = three->rounds * (three->rounds - 1) / 2;
    MUST(sum_a == all && sum_b == all);
    return 0;
}

static int64_t
takes(void *arg)
{
    Three *three = arg;
    for (int64_t i = 0; i < three->rounds; i++) {
        int32_t error;
        MUST(janus_channel_recv_i64(three->out, &error) == i && error == 0);
    }
    return 0;
}

static void
several_at_once(void)
{
    for (int32_t capacity = 0; capacity < 2; capacity++) {
        Three forward = {janus_channel_create_i64(capacity), janus_channel_create_i64(capacity),
                         janus_channel_create_i64(capacity), FEW(3000)};
        Three backward = {forward.b, NULL, NULL, FEW(3000)};
        janus_nursery_create();
        CHECK_EQUAL(janus_nursery_spawn(selects, &forward), 0);
        CHECK_EQUAL(janus_nursery_spawn(feeds, &forward), 0);
        CHECK_EQUAL(janus_nursery_spawn(feeds, &backward), 0);
        CHECK_EQUAL(janus_nursery_spawn(takes, &forward), 0);
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
        janus_channel_destroy_i64(forward.a);
        janus_channel_destroy_i64(forward.b);
        janus_channel_destroy_i64(forward.out);
    }
}

/* If two cases are always ready, neither is starved: the first does not always win. */
static int64_t
fair(void *arg)
{
    (void)arg;
    void *a = janus_channel_create_i64(1), *b = janus_channel_create_i64(1);
    int64_t times[2] = {0, 0};
    void *s = janus_select_create();
    MUST(janus_select_add_recv(s, a) == 0 && janus_select_add_recv(s, b) == 1);
    for (int i = 0; i < 400; i++) {
        (void)janus_channel_try_send_i64(a, 1);
        (void)janus_channel_try_send_i64(b, 1);
        int32_t which = janus_select_wait(s);
        MUST(which == 0 || which == 1);
        times[which]++;
    }
    MUST(times[0] > 100 && times[1] > 100);
    janus_select_destroy(s);
    janus_channel_destroy_i64(a);
    janus_channel_destroy_i64(b);
    return 0;
}

static void
fairness(void)
{
    CHECK_EQUAL(rt_run(fair, NULL), JANUS_OK);
}

/* A waiting select can be cancelled, and has a time limit inside a task. */
static int64_t
select_is_cancelled(void *channel)
{
    void *s = janus_select_create();
    MUST(janus_select_add_recv(s, channel) == 0);
    int32_t ended = janus_select_wait(s);
    janus_select_destroy(s);
    MUST(ended == JANUS_CANCELLED);
    return JANUS_CANCELLED;
}

static int64_t
times_out_then_fails(void *channel)
{
    void *s = janus_select_create();
    MUST(janus_select_add_recv(s, channel) == 0 && janus_select_add_timeout(s, 2) == 1);
    MUST(janus_select_wait(s) == 1);
    janus_select_destroy(s);
    return -5;
}

static void
cancel_and_timeout(void)
{
    void *c = janus_channel_create_i64(0);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn(select_is_cancelled, c), 0);
    CHECK_EQUAL(janus_nursery_spawn(times_out_then_fails, c), 0);
    CHECK_EQUAL(janus_nursery_await_all(), -5);
    janus_channel_destroy_i64(c);
}

int
main(void)
{
    void (*const tests[])(void) = {defaults_and_timeouts, several_at_once, fairness, cancel_and_timeout};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    return finish();
}
