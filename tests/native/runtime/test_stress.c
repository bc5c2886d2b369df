/* Everything at once, for as many seconds as the first argument says (without it, a fraction of one): trees, channels,
 * selects, timers, budgets, tokens, pauses, cancellations, panics, overflows, outside threads, in rounds drawn from a
 * seed, on several workers.
 *
 * Every round must have its expected result, and memory must stay flat: after the first quarter of the time, the mapped
 * memory may grow only by a stated part. The curve is printed.
 */
#include "rt.h"

#include <time.h>

#define SHORT_MS 400           /* without an argument, as in `make test` */
#define GROWTH_PERCENT 10      /* allocators and stacks keep the memory of the largest round */
#define GROWTH_BYTES (8 << 20) /* the error of a count in kilobytes */
#define ROUND_TASKS 200

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t
resident_bytes(void)
{
    uint64_t kib = 0, value;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        kib += sscanf(line, "VmRSS: %" SCNu64, &value) == 1 ? value : 0;
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib * 1024;
}

static uint64_t
mixed(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* What the tasks of a round share. */
typedef struct {
    void *channels[2], *token, *nursery;
} Round;

static int64_t
tree(void *arg)
{
    int64_t depth = (int64_t)(intptr_t)arg;
    if (depth == 0) {
        return 0;
    }
    if (janus_nursery_create() == NULL) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (janus_nursery_spawn(tree, (void *)(intptr_t)(depth - 1)) != 0) {
            break;
        }
    }
    (void)janus_yield();
    (void)janus_nursery_await_all();
    return 0;
}

static int64_t
sends(void *arg)
{
    Round *round = arg;
    for (int64_t i = 0; i < 20; i++) {
        if (janus_channel_send_i64(round->channels[i % 2], i) != 0) {
            return 0; /* closed, or cancelled */
        }
    }
    return 0;
}

static int64_t
receives(void *arg)
{
    Round *round = arg;
    int32_t error = 0;
    for (int i = 0; i < 20 && error == 0; i++) {
        (void)janus_channel_recv_i64(round->channels[i % 2], &error);
    }
    return 0;
}

static int64_t
selects(void *arg)
{
    Round *round = arg;
    void *select = janus_select_create();
    (void)janus_select_add_recv(select, round->channels[0]);
    (void)janus_select_add_send(select, round->channels[1], 5);
    (void)janus_select_add_timeout(select, 1);
    for (int i = 0; i < 5 && janus_select_wait(select) >= 0; i++) {
    }
    janus_select_destroy(select);
    return 0;
}

static int64_t
sleeps(void *arg)
{
    (void)arg;
    (void)janus_sleep_ns(50000);
    return 0;
}

static int64_t
spends(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    while (janus_tick(ticks) == JANUS_OK) {
    }
    return 0;
}

static int64_t
panics(void *arg)
{
    (void)arg;
    (void)janus_yield();
    janus_panic(-1);
    return 0;
}

static __attribute__((noinline)) int64_t
overflow(volatile int64_t depth)
{
    volatile char some[200];
    some[0] = some[199] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + some[199];
}

static int64_t
overflows(void *arg)
{
    (void)arg;
    return overflow(0);
}

/* Not on a task's stack: the task may be cut off before the callback is called. */
static atomic_llong on_cancel_calls;

static void
on_cancel(void *arg, int reason)
{
    (void)arg;
    (void)reason;
    atomic_fetch_add(&on_cancel_calls, 1);
}

static int64_t
watches(void *arg)
{
    Round *round = arg;
    void *token = janus_cancel_token_child(round->token);
    (void)janus_cancel_token_on_cancel(token, on_cancel, NULL);
    (void)janus_cancel_token_cancel_after(token, 100000);
    while (!janus_cancel_token_is_cancelled(token) && janus_sleep_ns(50000) == JANUS_OK) {
    }
    janus_cancel_token_cancel(token);
    janus_cancel_token_destroy(token);
    return 0;
}

static int64_t
pauses(void *arg)
{
    (void)arg;
    janus_task task;
    janus_nursery_options options = {.size = sizeof options};
    void *nursery = janus_nursery_open(&options);
    if (nursery != NULL && janus_nursery_spawn_with(nursery, tree, (void *)2, NULL, &task) == JANUS_OK) {
        (void)janus_task_pause(task);
        (void)janus_yield();
        (void)janus_task_resume(task);
    }
    (void)janus_nursery_await(nursery);
    (void)janus_nursery_destroy(nursery);
    return 0;
}

static int64_t
cancels(void *arg)
{
    Round *round = arg;
    for (int i = 0; i < 50; i++) {
        (void)janus_yield();
    }
    (void)janus_nursery_cancel_in(round->nursery);
    return 0;
}

static void *
outside(void *arg)
{
    Round *round = arg;
    for (int64_t i = 0; i < 10; i++) {
        (void)janus_channel_try_send_i64(round->channels[0], i);
        (void)janus_channel_try_recv_i64(round->channels[1], &i);
        (void)janus_nursery_spawn_in(round->nursery, tree, (void *)1);
    }
    return NULL;
}

/* One round: a nursery with everything; sometimes cancelled, sometimes with an outside thread. */
static void
run_round(uint64_t *random)
{
    static int64_t (*const kinds[])(void *) = {tree,   sends,  receives,  selects, sleeps,
                                               spends, panics, overflows, watches, pauses};
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    janus_budget some = {5000, 0, 0, 0, 0};
    Round round = {{janus_channel_create_i64((int32_t)(mixed(random) % 4)), janus_channel_create_i64(1)},
                   janus_cancel_token_create(),
                   janus_nursery_open(&options)};
    CHECK(round.channels[0] != NULL && round.channels[1] != NULL && round.token != NULL && round.nursery != NULL);
    for (int i = 0; i < FEW(ROUND_TASKS); i++) {
        uint64_t kind = mixed(random) % (sizeof kinds / sizeof *kinds);
        janus_task_options own = {.size = sizeof own, .budget = kinds[kind] == spends ? &some : NULL};
        void *arg = kinds[kind] == tree ? (void *)(mixed(random) % 5) : &round;
        CHECK_EQUAL(janus_nursery_spawn_with(round.nursery, kinds[kind], arg, &own, NULL), JANUS_OK);
    }
    pthread_t thread;
    bool has_outside = mixed(random) % 4 == 0 && pthread_create(&thread, NULL, outside, &round) == 0;
    if (mixed(random) % 2 == 0) {
        int spawned = janus_nursery_spawn_in(round.nursery, cancels, &round);
        CHECK_EQUAL(spawned, JANUS_OK);
    } else { /* release tasks that wait for a partner in vain */
        CHECK_EQUAL(janus_channel_close(round.channels[0]), JANUS_OK);
        CHECK_EQUAL(janus_channel_close(round.channels[1]), JANUS_OK);
    }
    if (has_outside) {
        pthread_join(thread, NULL);
    }
    int64_t ended = janus_nursery_await(round.nursery);
    CHECK(ended == JANUS_OK || ended == JANUS_CANCELLED || ended == JANUS_PANICKED || ended == JANUS_BUDGET_EXCEEDED);
    CHECK_EQUAL(janus_nursery_destroy(round.nursery), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(round.channels[0]), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(round.channels[1]), JANUS_OK);
    janus_cancel_token_destroy(round.token);
}

static void
stress(int64_t duration_ms)
{
    uint64_t random = 1, settled = 0, rounds = 0, most = 0;
    int64_t begun = now_ms(), shown = 0, elapsed;
    rt_up(4);
    while ((elapsed = now_ms() - begun) < duration_ms) {
        run_round(&random);
        rounds++;
        uint64_t bytes = resident_bytes();
        if (elapsed * 4 < duration_ms || settled == 0) {
            settled = bytes > settled ? bytes : settled;
        }
        most = bytes > most ? bytes : most;
        if (elapsed * 20 >= shown * duration_ms) {
            fprintf(stderr, "%8.1f s %9" PRIu64 " rounds %8" PRIu64 " KiB\n", (double)elapsed / 1000, rounds,
                    bytes / 1024);
            shown++;
        }
    }
    janus_statistics all = rt_statistics();
    CHECK_EQUAL(all.finished, all.spawned);
    CHECK(atomic_load(&on_cancel_calls) > 0);
    fprintf(stderr,
            "%" PRIu64 " rounds, %" PRIu64 " tasks, %" PRIu64 " panics, %" PRIu64 " cancelled; %" PRIu64
            " KiB after a quarter, %" PRIu64 " KiB at most\n",
            rounds, all.finished, all.panicked, all.cancelled, settled / 1024, most / 1024);
#if !SANITIZE_ADDRESS && !SANITIZE_THREAD
    CHECK(most <= settled + settled * GROWTH_PERCENT / 100 + GROWTH_BYTES);
#endif
    janus_rt_shutdown();
}

int
main(int count, char **arguments)
{
    stress(count > 1 ? (int64_t)(strtod(arguments[1], NULL) * 1000) : SHORT_MS);
    return finish();
}
