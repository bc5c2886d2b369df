/* Rows of the checklist (docs/internals/checklist.md) that need their own program: what a worker runs, the state of a
 * nursery at each moment, what a compiler would emit. */
#include "rt.h"

#include <fenv.h>

static atomic_long ran;

static int64_t
adds(void *arg)
{
    atomic_fetch_add(&ran, (long)(intptr_t)arg);
    return (int64_t)(intptr_t)arg;
}

static int64_t
adds_and_yields(void *times)
{
    for (intptr_t i = (intptr_t)times; i > 0; i--) {
        atomic_fetch_add(&ran, 1);
        if (i > 1) {
            MUST(janus_yield() == JANUS_OK);
        }
    }
    return 0;
}

/* ---- workers */

/* WI-1 to WI-3: each task runs once, with its argument, one after the other. */
static void
tasks_run_once(void)
{
    atomic_store(&ran, 0);
    CHECK_EQUAL(rt_run(adds, (void *)7), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 7);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(rt_run(adds, (void *)1), JANUS_OK);
    }
    CHECK_EQUAL(atomic_load(&ran), 10);
    janus_statistics now = rt_statistics();
    CHECK(now.dispatched == 4 && now.finished == 4 && now.yielded == 0 && now.parked == 0);
}

/* WI-4, MW-4: two yields, three increments; three such tasks, nine. */
static void
yields_resume(void)
{
    atomic_store(&ran, 0);
    CHECK_EQUAL(rt_run(adds_and_yields, (void *)3), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 3);
    CHECK_EQUAL(rt_statistics().yielded, 2);
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(janus_nursery_spawn(adds_and_yields, (void *)3), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 12);
}

/* Waits until as many tasks as there are workers are here: so they run at the same time, and some were stolen. */
static atomic_int arrived;

static int64_t
meets(void *how_many)
{
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < (int)(intptr_t)how_many) { /* no yield: it keeps its worker */
    }
    atomic_fetch_add(&ran, 1);
    return 0;
}

static int64_t
spawns_here(void *how_many)
{
    intptr_t count = (intptr_t)how_many;
    MUST(janus_nursery_create() != NULL);
    for (intptr_t i = 0; i < count; i++) {
        MUST(janus_nursery_spawn(meets, how_many) == 0);
    }
    return janus_nursery_await_all();
}

/* MW-1 to MW-3: as many tasks as workers, all spawned on one worker, wait for each other without giving way. So the
 * other workers must steal them. */
static void
load_is_shared(void)
{
    for (uint32_t workers = 2; workers <= 4; workers += 2) {
        rt_up(workers);
        atomic_store(&ran, 0);
        atomic_store(&arrived, 0);
        CHECK_EQUAL(rt_run(spawns_here, (void *)(intptr_t)workers), JANUS_OK);
        CHECK_EQUAL(atomic_load(&ran), workers);
        janus_statistics now = rt_statistics();
        CHECK_EQUAL(now.threads, workers);
        CHECK(now.stolen >= workers - 1 && now.steals >= 1);
        CHECK_EQUAL(now.finished, workers + 1);
        janus_rt_shutdown();
    }
}

/* Without thieves the order is fixed: the same program on one worker runs in the same order again. */
static unsigned trail[2][300], trail_length[2];
static int trail_of;

static int64_t
leaves_a_trail(void *arg)
{
    for (int i = 0; i < 3; i++) {
        trail[trail_of][trail_length[trail_of]++] = (unsigned)(uintptr_t)arg;
        MUST(janus_yield() == JANUS_OK);
    }
    return 0;
}

static int64_t
walks(void *arg)
{
    MUST(janus_nursery_create() != NULL);
    for (uintptr_t i = 0; i < 50; i++) {
        MUST(janus_nursery_spawn(leaves_a_trail, (void *)i) == 0);
        MUST(i % 7 != 0 || janus_yield() == JANUS_OK);
    }
    (void)arg;
    return janus_nursery_await_all();
}

static void
one_thread_repeats(void)
{
    for (trail_of = 0; trail_of < 2; trail_of++) {
        rt_up(1);
        trail_length[trail_of] = 0;
        CHECK_EQUAL(rt_run(walks, NULL), JANUS_OK);
        CHECK_EQUAL(trail_length[trail_of], 150);
        janus_rt_shutdown();
    }
    CHECK(memcmp(trail[0], trail[1], sizeof trail[0]) == 0);
}

/* MW-5 to MW-7, WI-5: the counters are right. */
static int64_t
spawns_fifty(void *arg)
{
    (void)arg;
    MUST(janus_nursery_create() != NULL);
    for (int i = 0; i < 50; i++) {
        MUST(janus_nursery_spawn(adds, (void *)1) == 0);
    }
    return janus_nursery_await_all();
}

static void
counters_are_exact(void)
{
    atomic_store(&ran, 0);
    CHECK_EQUAL(rt_run(spawns_fifty, NULL), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 50);
    janus_statistics now = rt_statistics();
    CHECK(now.spawned == 51 && now.finished == 51);
    CHECK(now.local_takes >= 1 && now.injected_takes >= 1);
    CHECK(now.dispatched >= 51 && now.dispatched <= 52); /* the parent's second turn, if it had to wait */
    int64_t values[2] = {0, 0};
    void *n = janus_nursery_open(NULL);
    for (intptr_t i = 0; i < 2; i++) {
        janus_task_options out = {.size = sizeof out, .value_out = &values[i]};
        CHECK_EQUAL(janus_nursery_spawn_with(n, adds, (void *)(i + 5), &out, NULL), JANUS_OK);
    }
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK(values[0] == 5 && values[1] == 6);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* ---- nurseries */

/* SO-2, NU-2: no two nurseries and no two tasks have the same number, and a child's number contains its nursery's. */
static int64_t
stores_its_id(void *out)
{
    *(uint64_t *)out = janus_task_id();
    return 0;
}

static void
ids_are_unique(void)
{
    uint64_t ids[2][3];
    void *nurseries[2];
    for (int n = 0; n < 2; n++) {
        nurseries[n] = janus_nursery_open(NULL);
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(janus_nursery_spawn_in(nurseries[n], stores_its_id, &ids[n][i]), JANUS_OK);
        }
    }
    CHECK(nurseries[0] != nurseries[1]);
    for (int n = 1; n >= 0; n--) {
        CHECK_EQUAL(janus_nursery_await(nurseries[n]), JANUS_OK);
        CHECK_EQUAL(janus_nursery_destroy(nurseries[n]), JANUS_OK);
    }
    for (int i = 0; i < 6; i++) {
        CHECK(ids[i / 3][i % 3] != 0 && ids[i / 3][i % 3] >> 32 == ids[i / 3][0] >> 32);
        for (int j = 0; j < i; j++) {
            CHECK(ids[i / 3][i % 3] != ids[j / 3][j % 3]);
        }
    }
    CHECK(ids[0][0] >> 32 != ids[1][0] >> 32);
}

/* NI-8, NU-9: open while it takes children, closing while its owner awaits; it can be cancelled even then. */
typedef struct {
    void *nursery;
    bool cancels;
    int seen[2];
} Looker;

static int64_t
looks_while_awaited(void *arg)
{
    Looker *looker = arg;
    looker->seen[0] = janus_nursery_state(looker->nursery);
    while ((looker->seen[1] = janus_nursery_state(looker->nursery)) == 0) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_nursery_spawn_in(looker->nursery, adds, NULL) == JANUS_CLOSED); /* NU-4 */
    if (looker->cancels) {
        MUST(janus_nursery_cancel_in(looker->nursery) == JANUS_OK);
        MUST(janus_nursery_state(looker->nursery) == 2 && janus_cancelled());
        MUST(janus_cancel_reason() == JANUS_REASON_USER);
        MUST(janus_yield() == JANUS_CANCELLED);
        return JANUS_CANCELLED;
    }
    return 0;
}

static void
closing_is_seen(void)
{
    for (int cancels = 0; cancels < 2; cancels++) {
        Looker looker = {janus_nursery_open(NULL), cancels != 0, {-1, -1}};
        CHECK_EQUAL(janus_nursery_state(looker.nursery), 0);
        CHECK_EQUAL(janus_nursery_spawn_in(looker.nursery, looks_while_awaited, &looker), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(looker.nursery), cancels ? JANUS_CANCELLED : JANUS_OK);
        CHECK(looker.seen[0] <= 1 && looker.seen[1] == 1);
        CHECK_EQUAL(janus_nursery_state(looker.nursery), cancels ? 4 : 3);
        CHECK_EQUAL(janus_nursery_destroy(looker.nursery), JANUS_OK);
    }
}

/* NU-6, NI-7: each end is counted once. */
static void
ends_are_counted(void)
{
    janus_nursery_create();
    CHECK_EQUAL(janus_nursery_task_count(), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(janus_nursery_spawn(adds, (void *)0), 0);
    }
    CHECK(janus_nursery_task_count() <= 5);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    CHECK_EQUAL(rt_statistics().finished, 5);
    CHECK_EQUAL(janus_nursery_task_count(), 0);
}

/* NU-13, NU-16, NU-17: a task's nursery is the last one that it opened and has not awaited. */
static int64_t
owns(void *arg)
{
    (void)arg;
    void *outer = janus_nursery_create(), *inner = janus_nursery_create();
    MUST(outer != NULL && inner != NULL && outer != inner);
    MUST(janus_nursery_spawn(adds, (void *)1) == 0); /* into the inner one */
    MUST(janus_nursery_await_all() == JANUS_OK);
    MUST(janus_nursery_state(inner) == JANUS_INVALID && janus_nursery_state(outer) == 0);
    MUST(janus_nursery_spawn(adds, (void *)1) == 0); /* into the outer one again */
    MUST(janus_nursery_await_all() == JANUS_OK);
    MUST(janus_nursery_is_cancelled() && janus_nursery_spawn(adds, NULL) == -1); /* no nursery is open */
    return 0;
}

static void
owner_binding(void)
{
    atomic_store(&ran, 0);
    CHECK_EQUAL(rt_run(owns, NULL), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 2);
}

/* ---- the scenarios of the state machine: basic, error, cancelled spinner, nested cancel, order of cleanup */

static atomic_int order[8], order_count, begun;

static int64_t
notes_when_told(void *level)
{
    atomic_fetch_add(&begun, 1);
    while (janus_yield() == JANUS_OK) {
    }
    atomic_store(&order[atomic_fetch_add(&order_count, 1)], (int)(intptr_t)level);
    return JANUS_CANCELLED;
}

static int64_t
leaves_three_open(void *arg)
{
    (void)arg;
    for (intptr_t level = 1; level <= 3; level++) {
        MUST(janus_nursery_create() != NULL);
        MUST(janus_nursery_spawn(notes_when_told, (void *)level) == 0);
    }
    while (atomic_load(&begun) < 3) {
        MUST(janus_yield() == JANUS_OK);
    }
    return 0;
}

/* PC-9: the nursery that was opened last is cleaned up first; each level only after the level inside it has ended. */
static void
cleanup_is_last_in_first_out(void)
{
    atomic_store(&order_count, 0);
    atomic_store(&begun, 0);
    CHECK_EQUAL(rt_run(leaves_three_open, NULL), JANUS_OK);
    CHECK_EQUAL(atomic_load(&order_count), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(atomic_load(&order[i]), 3 - i);
    }
    CHECK_EQUAL(rt_statistics().finished, 4);
}

static int64_t
spins(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    int64_t rounds = 0;
    while (janus_tick(ticks) == JANUS_OK) {
        rounds++;
    }
    return rounds < 0 ? rounds : JANUS_CANCELLED;
}

static int64_t
fails_with(void *code)
{
    (void)janus_yield();
    return -(int64_t)(intptr_t)code;
}

static int64_t
opens_spinners(void *arg)
{
    MUST(janus_nursery_create() != NULL);
    for (int i = 0; i < 3; i++) {
        MUST(janus_nursery_spawn(spins, arg) == 0 || janus_cancelled());
    }
    return janus_nursery_await_all();
}

static void
scenarios(void)
{
    void *n = janus_nursery_open(NULL); /* basic */
    CHECK_EQUAL(janus_nursery_spawn_in(n, adds, (void *)1), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_state(n), 3);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    n = janus_nursery_open(NULL); /* error: it cancels two spinners, and is the result */
    CHECK_EQUAL(janus_nursery_spawn_in(n, spins, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, spins, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, fails_with, (void *)77), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), -77);
    CHECK_EQUAL(janus_nursery_state(n), 4);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    n = janus_nursery_open(NULL); /* nested: the error of one task reaches a nursery that another has opened */
    CHECK_EQUAL(janus_nursery_spawn_in(n, opens_spinners, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, opens_spinners, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, fails_with, (void *)78), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), -78);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    janus_statistics now = rt_statistics();
    CHECK_EQUAL(now.finished, now.spawned);
}

/* ---- what a compiler emits: spawn and await only where a nursery is open; every begin has its end */

static int64_t
misplaced(void *arg)
{
    (void)arg;
    MUST(janus_nursery_spawn(adds, NULL) == -1); /* PC-2, PC-7 */
    MUST(janus_scheduler_spawn(adds, NULL) == -1);
    MUST(janus_nursery_await_all() == JANUS_PENDING); /* PC-4, PC-8 */
    MUST(janus_nursery_create() != NULL);             /* PC-1, PC-3 */
    MUST(janus_nursery_spawn(adds, (void *)1) == 0);
    MUST(janus_nursery_create() != NULL); /* PC-5, PC-6 */
    MUST(janus_scheduler_spawn(adds, (void *)1) == 0);
    MUST(janus_nursery_await_all() == JANUS_OK && janus_nursery_await_all() == JANUS_OK);
    MUST(janus_nursery_await_all() == JANUS_PENDING);
    return 0;
}

static void
only_in_a_nursery(void)
{
    atomic_store(&ran, 0);
    CHECK_EQUAL(rt_run(misplaced, NULL), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ran), 2);
    CHECK_EQUAL(janus_nursery_spawn(adds, NULL), -1);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_PENDING);
}

/* The thunk that a compiler makes for `spawn f(a, b)`, and `await` of its value. */
typedef struct {
    int64_t a, b, value;
} Call;

static int64_t
thunk(void *arg)
{
    Call *call = arg;
    return call->value = call->a * call->b;
}

/* AE-3 to AE-9, P3-1, P3-3, P3-5: values come back, from one task and from three at once. */
static int64_t
calls_three(void *arg)
{
    (void)arg;
    Call calls[3] = {{6, 7, 0}, {10, 10, 0}, {-1, 1, 0}};
    int64_t values[3];
    void *n = janus_nursery_open(&(janus_nursery_options){.size = sizeof(janus_nursery_options), .keep_going = true});
    for (int i = 0; i < 3; i++) {
        janus_task_options out = {.size = sizeof out, .value_out = &values[i]};
        MUST(janus_nursery_spawn_with(n, thunk, &calls[i], &out, NULL) == JANUS_OK);
    }
    MUST(janus_nursery_await(n) == -1); /* AE-10, P3-4: the result names the failed task */
    janus_result result;
    MUST(janus_nursery_result(&result) == JANUS_OK && result.kind == JANUS_KIND_FAILED && result.code == -1);
    MUST(values[0] == 42 && values[1] == 100 && values[2] == -1 && calls[0].value == 42);
    return janus_nursery_destroy(n);
}

static void
awaited_values(void)
{
    CHECK_EQUAL(rt_run(calls_three, NULL), JANUS_OK);
}

/* P3-2, P3-6: a token and its children, across tasks. */
static int64_t
watches(void *token)
{
    while (!janus_cancel_token_is_cancelled(token)) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(janus_cancel_token_reason(token) == JANUS_REASON_PARENT);
    return 0;
}

static int64_t
cancels_token(void *token)
{
    MUST(janus_yield() == JANUS_OK);
    janus_cancel_token_cancel(token);
    return 0;
}

static void
tokens_across_tasks(void)
{
    void *root = janus_cancel_token_create(), *child = janus_cancel_token_child(root);
    CHECK(janus_nursery_create() != NULL);
    CHECK_EQUAL(janus_nursery_spawn(watches, child), 0);
    CHECK_EQUAL(janus_nursery_spawn(watches, child), 0);
    CHECK_EQUAL(janus_nursery_spawn(cancels_token, root), 0);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_cancel_token_destroy(child);
    janus_cancel_token_destroy(root);
}

/* ---- AR-1: an actor answers each message, negated, until its mailbox is closed */

typedef struct {
    void *mailbox, *answers;
} Actor;

static int64_t
acts(void *arg)
{
    Actor *actor = arg;
    int32_t error = 0;
    for (;;) {
        int64_t message = janus_channel_recv_i64(actor->mailbox, &error);
        if (error != 0) {
            return 0;
        }
        MUST(janus_channel_send_i64(actor->answers, -message) == 0);
    }
}

static int64_t
talks(void *arg)
{
    Actor *actor = arg;
    int32_t error;
    for (int64_t i = 1; i <= 100; i++) {
        MUST(janus_channel_send_i64(actor->mailbox, i) == 0);
        MUST(janus_channel_recv_i64(actor->answers, &error) == -i && error == 0);
    }
    janus_channel_close_i64(actor->mailbox);
    return 0;
}

static void
actors(void)
{
    Actor actor = {janus_channel_create_i64(0), janus_channel_create_i64(1)};
    CHECK(janus_nursery_create() != NULL);
    CHECK_EQUAL(janus_nursery_spawn(acts, &actor), 0);
    CHECK_EQUAL(janus_nursery_spawn(talks, &actor), 0);
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_channel_destroy_i64(actor.mailbox);
    janus_channel_destroy_i64(actor.answers);
}

/* ---- SF-1 to SF-3: two producers, a select in the middle, a consumer; one nursery, two channels in, one out */

typedef struct {
    void *in[2], *out;
} System;

static int64_t
produces_first(void *arg)
{
    System *system = arg;
    for (int64_t i = 1; i <= 50; i++) {
        MUST(janus_channel_send_i64(system->in[0], i) == 0);
    }
    return 0;
}

static int64_t
produces_second(void *arg)
{
    System *system = arg;
    for (int64_t i = 51; i <= 100; i++) {
        MUST(janus_channel_send_i64(system->in[1], i) == 0);
    }
    return 0;
}

static int64_t
merges(void *arg)
{
    System *system = arg;
    void *select = janus_select_create();
    MUST(janus_select_add_recv(select, system->in[0]) == 0 && janus_select_add_recv(select, system->in[1]) == 1);
    for (int i = 0; i < 100; i++) {
        int32_t which = janus_select_wait(select);
        MUST(which == 0 || which == 1);
        MUST(janus_channel_send_i64(system->out, janus_select_get_recv_value(select, which)) == 0);
    }
    janus_select_destroy(select);
    janus_channel_close_i64(system->out);
    return 0;
}

static int64_t
consumes(void *arg)
{
    System *system = arg;
    int64_t sum = 0;
    int32_t error = 0;
    while (error == 0) {
        sum += janus_channel_recv_i64(system->out, &error);
    }
    return sum == 5050 ? 0 : -1;
}

static void
communicating_processes(void)
{
    System system = {{janus_channel_create_i64(0), janus_channel_create_i64(3)}, janus_channel_create_i64(0)};
    janus_task_fn parts[] = {consumes, merges, produces_first, produces_second};
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(janus_nursery_spawn(parts[i], &system), 0);
    }
    CHECK_EQUAL(janus_nursery_await_all(), JANUS_OK);
    janus_channel_destroy_i64(system.in[0]);
    janus_channel_destroy_i64(system.in[1]);
    janus_channel_destroy_i64(system.out);
}

/* ---- registers and control words under load: each task has its own, whatever ran before on the worker that resumes it
 */

static int64_t
keeps_its_numbers(void *arg)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    int64_t number = (int64_t)(intptr_t)arg, a = number, b = 3 * number, c = 5 * number, d = 7 * number,
            e = 11 * number;
    volatile double one = 1.0, three = 3.0;
    double x = (double)number, y = x * 0.5, z = x * 0.25;
    int mode = modes[number % 4];
    MUST(fegetround() == FE_TONEAREST); /* whatever ran here before */
    fesetround(mode);
    double third = one / three;
    for (int i = 0; i < 50; i++) {
        MUST(janus_yield() == JANUS_OK);
        MUST(fegetround() == mode && one / three == third);
        a += 1, b += 2, c += 3, d += 4, e += 5;
        x += 1.0, y += 2.0, z += 3.0;
    }
    fesetround(FE_TONEAREST); /* a function must restore them */
    MUST(a == number + 50 && b == 3 * number + 100 && c == 5 * number + 150 && d == 7 * number + 200 &&
         e == 11 * number + 250);
    double n = (double)number;
    MUST(x == n + 50.0 && y == n * 0.5 + 100.0 && z == n * 0.25 + 150.0);
    return 0;
}

static int64_t
panics_rounding_up(void *arg)
{
    (void)arg;
    fesetround(FE_UPWARD);
    MUST(janus_yield() == JANUS_OK);
    janus_panic(-1);
    return 0;
}

static void
registers_under_load(void)
{
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    void *n = janus_nursery_open(&options);
    for (intptr_t i = 1; i <= FEW(500); i++) {
        CHECK_EQUAL(janus_nursery_spawn_in(n, i % 10 == 0 ? panics_rounding_up : keeps_its_numbers, (void *)i),
                    JANUS_OK);
    }
    CHECK_EQUAL(janus_nursery_await(n), JANUS_PANICKED); /* no task failed in a MUST, whose line would be the code */
    CHECK_EQUAL(rt_statistics().failed, 0);
    CHECK_EQUAL(rt_statistics().panicked, FEW(500) / 10);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK_EQUAL(fegetround(), FE_TONEAREST);
}

int
main(void)
{
    void (*const tests[])(void) = {
        tasks_run_once,          yields_resume,
        counters_are_exact,      ids_are_unique,
        closing_is_seen,         ends_are_counted,
        owner_binding,           scenarios,
        only_in_a_nursery,       awaited_values,
        tokens_across_tasks,     actors,
        communicating_processes, cleanup_is_last_in_first_out,
        registers_under_load,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    load_is_shared();
    one_thread_repeats();
    return finish();
}
