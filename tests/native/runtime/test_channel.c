/* Channels: order, rendezvous, close; and no worker sleeps on a channel. CH-1 to CH-15; faults 25 and 26. */
#include "rt.h"

#define CHANNEL_BYTES 4096u /* the largest item */

/* CH-1, CH-2, CH-5 to CH-8, CH-11 to CH-15: by an outside thread, without a task. */
static void
buffered(void)
{
    int64_t value = 0;
    int32_t error = 1;
    void *c = janus_channel_create_i64(3);
    CHECK(c != NULL);
    CHECK_EQUAL(janus_channel_len_i64(c), 0);
    CHECK_EQUAL(janus_channel_try_recv_i64(c, &value), 0);
    CHECK_EQUAL(janus_channel_send_i64(c, INT64_MIN), 0); /* any number is a value */
    CHECK_EQUAL(janus_channel_len_i64(c), 1);
    CHECK_EQUAL(janus_channel_try_send_i64(c, 2), 1);
    CHECK_EQUAL(janus_channel_try_send_i64(c, 3), 1);
    CHECK_EQUAL(janus_channel_try_send_i64(c, 4), 0);
    CHECK_EQUAL(janus_channel_len_i64(c), 3);
    CHECK_EQUAL(janus_channel_recv_i64(c, &error), INT64_MIN);
    CHECK_EQUAL(error, 0);
    CHECK_EQUAL(janus_channel_try_send_i64(c, 4), 1);
    CHECK_EQUAL(janus_channel_is_closed_i64(c), 0);
    janus_channel_close_i64(c);
    janus_channel_close_i64(c);
    CHECK_EQUAL(janus_channel_is_closed_i64(c), 1);
    CHECK_EQUAL(janus_channel_send_i64(c, 9), -1); /* CH-3 */
    CHECK_EQUAL(janus_channel_try_send_i64(c, 9), -1);
    CHECK_EQUAL(janus_channel_recv_i64(c, &error), 2); /* CH-4: it is drained first */
    CHECK_EQUAL(janus_channel_recv_i64(c, &error), 3);
    CHECK_EQUAL(janus_channel_try_recv_i64(c, &value), 1);
    CHECK_EQUAL(value, 4);
    CHECK_EQUAL(janus_channel_recv_i64(c, &error), 0);
    CHECK_EQUAL(error, -1);
    CHECK_EQUAL(janus_channel_try_recv_i64(c, &value), -1);
    janus_channel_destroy_i64(c);
    void *rendezvous = janus_channel_create_i64(-5);
    CHECK_EQUAL(janus_channel_try_send_i64(rendezvous, 1), 0); /* fault 26: no receiver waits */
    janus_channel_destroy_i64(rendezvous);
}

typedef struct {
    void *channel;
    int64_t first, count;
} Job;

static int64_t
sends(void *arg)
{
    Job *job = arg;
    for (int64_t i = 0; i < job->count; i++) {
        MUST(janus_channel_send_i64(job->channel, job->first + i) == 0);
    }
    return 0;
}

static int64_t
receives_sum(void *arg)
{
    Job *job = arg;
    int64_t sum = 0;
    for (int64_t i = 0; i < job->count; i++) {
        int32_t error;
        sum += janus_channel_recv_i64(job->channel, &error);
        MUST(error == 0);
    }
    return sum;
}

/* CH-9, CH-10; fault 25: more tasks than workers wait at once, on one worker too, with and without a ring. */
static void
many_to_one(void)
{
    for (int32_t capacity = 0; capacity <= 2; capacity++) {
        void *c = janus_channel_create_i64(capacity);
        Job jobs[4], taker = {c, 0, 100};
        int64_t sum = 0;
        janus_task_options out = {.size = sizeof out, .value_out = &sum};
        void *n = janus_nursery_open(NULL);
        for (int i = 0; i < 4; i++) {
            jobs[i] = (Job){c, 25 * i + 1, 25};
            CHECK_EQUAL(janus_nursery_spawn_in(n, sends, &jobs[i]), JANUS_OK);
        }
        CHECK_EQUAL(janus_nursery_spawn_with(n, receives_sum, &taker, &out, NULL), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
        CHECK_EQUAL(sum, 5050);
        CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
        CHECK_EQUAL(janus_channel_destroy(c), JANUS_OK);
    }
}

static int64_t
receives_in_order(void *arg)
{
    Job *job = arg;
    for (int64_t i = 0; i < job->count; i++) {
        int32_t error;
        MUST(janus_channel_recv_i64(job->channel, &error) == job->first + i && error == 0);
    }
    int32_t error;
    MUST(janus_channel_recv_i64(job->channel, &error) == 0 && error == -1); /* closed by the sender */
    return 0;
}

static int64_t
sends_and_closes(void *arg)
{
    int64_t done = sends(arg);
    janus_channel_close_i64(((Job *)arg)->channel);
    return done;
}

static void
in_order(void)
{
    for (int32_t capacity = 0; capacity <= 3; capacity++) {
        Job job = {janus_channel_create_i64(capacity), 1, FEW(20000)};
        janus_nursery_create();
        CHECK_EQUAL(janus_nursery_spawn(receives_in_order, &job), 0);
        CHECK_EQUAL(janus_nursery_spawn(sends_and_closes, &job), 0);
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
        janus_channel_destroy_i64(job.channel);
    }
}

/* Fault 26: a close wakes all waiters with an error. */
static int64_t
send_is_refused(void *channel)
{
    int64_t value = 1;
    MUST(janus_channel_send(channel, &value) == JANUS_CLOSED);
    return 0;
}

static int64_t
receive_is_refused(void *channel)
{
    int64_t value;
    MUST(janus_channel_receive(channel, &value) == JANUS_CLOSED);
    return 0;
}

static int64_t
closes(void *channel)
{
    for (int i = 0; i < 50; i++) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_channel_close(channel) == JANUS_OK);
    return 0;
}

static void
close_wakes(void)
{
    for (int which = 0; which < 2; which++) {
        void *c = janus_channel_create_i64(0);
        janus_nursery_create();
        for (int i = 0; i < 5; i++) {
            CHECK_EQUAL(janus_nursery_spawn(which == 0 ? send_is_refused : receive_is_refused, c), 0);
        }
        CHECK_EQUAL(janus_nursery_spawn(closes, c), 0);
        CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
        janus_channel_destroy_i64(c);
    }
}

/* Values of any size, and outside threads at the other end. */
typedef struct {
    char text[100];
} Item;

static int64_t
answers(void *arg)
{
    void **channels = arg;
    Item letter;
    for (int i = 0; i < 100; i++) {
        MUST(janus_channel_receive(channels[0], &letter) == JANUS_OK);
        letter.text[0]++;
        MUST(janus_channel_send(channels[1], &letter) == JANUS_OK);
    }
    return 0;
}

static void
items_from_outside(void)
{
    void *channels[] = {janus_channel_create(sizeof(Item), 0), janus_channel_create(sizeof(Item), 1)};
    Item letter = {"a letter"};
    CHECK(janus_channel_create(0, 1) == NULL && janus_channel_create(5000, 1) == NULL);
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_spawn(answers, channels), 0);
    for (int i = 0; i < 100; i++) {
        letter.text[0] = 'a';
        CHECK_EQUAL(janus_channel_send(channels[0], &letter), JANUS_OK);
        CHECK_EQUAL(janus_channel_receive(channels[1], &letter), JANUS_OK);
        CHECK(strcmp(letter.text, "b letter") == 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(channels[0]), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(channels[1]), JANUS_OK);
}

/* A call for values of int64_t on a channel of items of another size is refused, and neither reads nor writes anything:
 * with an item in the channel and without, with room and without. */
static int64_t
typed_calls_on(void *c, bool has_item)
{
    struct {
        char before[64];
        int64_t value;
        char after[64];
    } place;
    memset(&place, 7, sizeof place);
    const int64_t value = place.value;
    const int32_t count = janus_channel_len_i64(c);
    int32_t error = 1;
    MUST(count == (has_item ? 1 : 0));
    MUST(janus_channel_send_i64(c, 1) == -1);
    MUST(janus_channel_try_send_i64(c, 1) == -1);
    MUST(janus_channel_recv_i64(c, &error) == 0 && error == -1);
    MUST(janus_channel_recv_i64(c, NULL) == 0);
    MUST(janus_channel_try_recv_i64(c, &place.value) == -1);
    void *select = janus_select_create();
    MUST(janus_select_add_recv(select, c) == -1);
    MUST(janus_select_add_send(select, c, 1) == -1);
    MUST(janus_select_wait(select) == JANUS_INVALID); /* it has no case */
    janus_select_destroy(select);
    for (size_t i = 0; i < sizeof place.before; i++) {
        MUST(place.before[i] == 7 && place.after[i] == 7);
    }
    MUST(place.value == value && janus_channel_len_i64(c) == count);
    return 0;
}

static int64_t
typed_calls_on_other_sizes(void *arg)
{
    char sent[CHANNEL_BYTES], received[CHANNEL_BYTES];
    (void)arg;
    for (size_t bytes = 1; bytes <= CHANNEL_BYTES; bytes = bytes < 64 ? bytes + 1 : bytes * 2) {
        for (size_t capacity = 0; bytes != sizeof(int64_t) && capacity < 3; capacity++) {
            void *c = janus_channel_create(bytes, capacity);
            MUST(c != NULL);
            int64_t failed = typed_calls_on(c, false);
            MUST(failed == 0);
            if (capacity != 0) {
                memset(sent, (int)bytes, bytes);
                MUST(janus_channel_try_send(c, sent) == JANUS_OK);
                failed = typed_calls_on(c, true);
                MUST(failed == 0);
                MUST(janus_channel_receive(c, received) == JANUS_OK && memcmp(sent, received, bytes) == 0);
            }
            MUST(janus_channel_destroy(c) == JANUS_OK);
        }
    }
    return 0;
}

static void
typed_calls(void)
{
    janus_task_options large = {.size = sizeof large, .stack_bytes = (size_t)1 << 18};
    CHECK_EQUAL(typed_calls_on_other_sizes(NULL), 0);
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, typed_calls_on_other_sizes, NULL, &large, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

int
main(void)
{
    void (*const tests[])(void) = {buffered, many_to_one, in_order, close_wakes, items_from_outside, typed_calls};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    return finish();
}
