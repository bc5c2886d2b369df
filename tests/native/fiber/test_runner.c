/* Runners: fibers that are called on the worker's stack and keep it if they park (RUNNER-1 to RUNNER-8). */

#include "world.h"

#include <pthread.h>
#include <sys/mman.h>

static struct world world;
static struct runner runner;

/* A script for the loop: its next step is a number in here, because the loop keeps nothing in its frame. */
struct script {
    int step;
    struct fiber a, b;
    struct stack *stack_of_a;
    int64_t sum;
    int after_runs;
    enum fiber_state state_a_in_after, ended[8];
};

static struct script script;

static struct stack *
under_my_feet(void)
{
    return stack_find(__builtin_frame_address(0));
}

static int64_t
returns_at_once(void *arg)
{
    (void)arg;
    CHECK(under_my_feet() == runner.stack);
    return 5;
}

static void
test_loop_of_calls(struct runner *at)
{
    struct stack *mine = under_my_feet();
    for (int i = 0; i < FEW(100000); i++) {
        fiber_init(&script.a, "called", returns_at_once, NULL, 0);
        CHECK_EQUAL(runner_call(&at, &script.a), FIBER_DONE);
        script.sum += script.a.result;
    }
    CHECK(under_my_feet() == mine && at == &runner);
    CHECK_EQUAL(runner_call(&at, &script.a), FIBER_REFUSED); /* it is DONE */
    CHECK_EQUAL(fiber_resume(&world.cache, &script.a), FIBER_REFUSED);
    runner_leave(at);
}

static void
test_called_on_the_loops_stack(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, test_loop_of_calls, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK_EQUAL(script.sum, 5 * FEW(100000));
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

static void
note_state(void *arg)
{
    struct fiber *fiber = arg;
    script.after_runs++;
    script.state_a_in_after = (enum fiber_state)fiber->state;
    CHECK(under_my_feet() != fiber->stack); /* RUNNER-4: this is another stack */
}

static int64_t
parks_twice(void *arg)
{
    struct fiber *self = arg;
    struct stack *mine = under_my_feet();
    CHECK(runner_park(self, note_state, self) == &runner);
    CHECK(under_my_feet() == mine && runner.spare != NULL);
    CHECK(runner_park(self, note_state, self) == &runner);
    return 6;
}

static void
loop_with_parking(struct runner *at)
{
    switch (script.step++) {
    case 0:
        script.stack_of_a = under_my_feet();
        fiber_init(&script.a, "parker", parks_twice, &script.a, 0);
        script.ended[0] = runner_call(&at, &script.a);
        CHECK(under_my_feet() == script.stack_of_a); /* the loop is on this stack again */
        runner_leave(at);
    default: /* twice: a has parked, and this is another stack */
        CHECK(under_my_feet() != script.stack_of_a);
        CHECK_EQUAL(script.a.state, FIBER_SUSPENDED);
        CHECK_EQUAL(fiber_resume(&world.cache, &script.a), FIBER_REFUSED); /* RUNNER-7 */
        CHECK_EQUAL(script.a.state, FIBER_SUSPENDED);
        runner_resume(at, &script.a);
    }
}

static void
test_parks_and_keeps_the_stack(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, loop_with_parking, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK_EQUAL(script.ended[0], FIBER_DONE);
    CHECK_EQUAL(script.a.result, 6);
    CHECK_EQUAL(script.after_runs, 2);
    CHECK_EQUAL(script.state_a_in_after, FIBER_SUSPENDED);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

/* Two fibers that switch to each other without the loop. */
static int64_t
ping(void *arg)
{
    struct fiber *self = arg, *other = self == &script.a ? &script.b : &script.a;
    runner_park(self, NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        script.sum++;
        if (other->state == FIBER_SUSPENDED) {
            runner_switch(self, other, NULL, NULL);
        }
    }
    return 1;
}

static void
loop_of_two(struct runner *at)
{
    int step = script.step++;
    if (step < 2) {
        struct fiber *fiber = step == 0 ? &script.a : &script.b;
        fiber_init(fiber, "ping", ping, fiber, 0);
        (void)runner_call(&at, fiber);
    }
    /* Either no fiber has ended, or this loop is at the bottom of the stack of one that has. */
    if (script.a.state == FIBER_SUSPENDED) {
        runner_resume(at, &script.a);
    }
    if (script.b.state == FIBER_SUSPENDED) {
        runner_resume(at, &script.b);
    }
    runner_leave(at);
}

static void
test_switches_directly(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, loop_of_two, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK(script.a.state == FIBER_DONE && script.b.state == FIBER_DONE);
    CHECK_EQUAL(script.sum, 2000);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

static int64_t
panics(void *arg)
{
    (void)arg;
    fiber_panic(-9);
    return 0;
}

static int64_t
parks_then_overflows(void *arg)
{
    runner_park(arg, NULL, NULL);
    return overflowing(arg);
}

/* Parks with too little stack left for the `after` of another fiber: it panics, before anything has changed. */
static __attribute__((noinline)) int64_t
parks_at_the_end(volatile int64_t depth)
{
    volatile char some[100];
    some[0] = (char)depth;
    if (fiber_headroom(&script.a) < RUNNER_HEADROOM_BYTES / 2) {
        runner_park(&script.a, NULL, NULL);
        return 0; /* never reached */
    }
    return parks_at_the_end(depth + 1) + some[0];
}

static int64_t
goes_to_the_end(void *arg)
{
    (void)arg;
    return parks_at_the_end(0);
}

/* Whether the lowest page of the loop's stack uses memory. */
static bool
end_is_resident(const struct runner *at)
{
    unsigned char in_memory[1] = {0};
    CHECK_EQUAL(mincore(at->stack->limit, 1, in_memory), 0);
    return (in_memory[0] & 1) != 0;
}

/* A panic or an overflow ends the call, at once or after a park, and the loop's frame is intact. A fiber that
 * overflowed leaves no memory at the end of the stack. */
static void
loop_of_disasters(struct runner *at)
{
    volatile uint64_t mine = 0x5eed;
    if (script.step > 0) {
        runner_resume(at, &script.b); /* it has parked */
    }
    for (int i = 0; i < FEW(1000); i++) {
        fiber_init(&script.a, "quitter", panics, NULL, 0);
        CHECK_EQUAL(runner_call(&at, &script.a), FIBER_PANICKED);
        CHECK(script.a.panic == FIBER_PANIC_CALLED && script.a.code == -9 && mine == 0x5eed);
        fiber_init(&script.a, "glutton", overflowing, NULL, 0);
        CHECK_EQUAL(runner_call(&at, &script.a), FIBER_PANICKED);
        CHECK(script.a.panic == FIBER_PANIC_OVERFLOW && mine == 0x5eed);
        CHECK(strcmp(script.a.name, "glutton") == 0);
        CHECK(!end_is_resident(at));
        fiber_init(&script.a, "late parker", goes_to_the_end, NULL, 0);
        CHECK_EQUAL(runner_call(&at, &script.a), FIBER_PANICKED);
        CHECK(script.a.panic == FIBER_PANIC_OVERFLOW && mine == 0x5eed);
    }
    script.step = 1;
    fiber_init(&script.b, "late glutton", parks_then_overflows, &script.b, 0);
    CHECK_EQUAL(runner_call(&at, &script.b), FIBER_PANICKED);
    CHECK(script.b.panic == FIBER_PANIC_OVERFLOW && mine == 0x5eed);
    CHECK(!end_is_resident(at));
    fiber_init(&script.a, "good", returns_at_once, NULL, 0);
    CHECK_EQUAL(runner_call(&at, &script.a), FIBER_DONE);
    runner_leave(at);
}

static void
test_disasters_end_the_call(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, loop_of_disasters, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
    CHECK_EQUAL(world_statistics(&world).retired, 0);
}

static int64_t
big(void *arg)
{
    (void)arg;
    return under_my_feet()->class;
}

static void
loop_of_sizes(struct runner *at)
{
    while (script.step < 6) {
        unsigned class = (unsigned)script.step % 3;
        fiber_init(&script.a, "sized", big, NULL, class);
        if (runner_must_hop(at, &script.a)) {
            CHECK_EQUAL(runner_call(&at, &script.a), FIBER_REFUSED);
            CHECK_EQUAL(runner_hop(at, class), 0);
        }
        CHECK_EQUAL(runner_call(&at, &script.a), FIBER_DONE);
        CHECK_EQUAL(script.a.result, class);
        script.step++;
    }
    runner_leave(at);
}

static void
test_hops_to_bigger_stacks(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, loop_of_sizes, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK_EQUAL(script.step, 6);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

/* Two workers on two threads pass one fiber to and fro; the worker that runs it last continues on its stack. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct runner runners[2];
    struct fiber fiber;
    int turn; /* the number of the worker that runs the fiber next; 2: it has ended */
    int started;
    int64_t visits[2];
} relay;

static void
pass_on(void *arg)
{
    pthread_mutex_lock(&relay.lock);
    relay.turn = *(int *)arg;
    pthread_cond_broadcast(&relay.changed);
    pthread_mutex_unlock(&relay.lock);
}

#define LEGS (FEW(2000) | 1) /* an odd number: it ends on the other thread */

static int64_t
runs_the_relay(void *arg)
{
    static int to[2] = {0, 1};
    struct runner *at = &relay.runners[0];
    (void)arg;
    for (int i = 0; i < LEGS; i++) {
        int here = at == &relay.runners[1];
        relay.visits[here]++;
        at = runner_park(&relay.fiber, pass_on, &to[!here]);
        CHECK(at == &relay.runners[!here]);
    }
    return 1;
}

static void
relay_loop(struct runner *at)
{
    int me = at == &relay.runners[1];
    if (me == 0 && relay.started == 0) {
        relay.started = 1;
        fiber_init(&relay.fiber, "relay", runs_the_relay, NULL, 0);
        CHECK_EQUAL(runner_call(&at, &relay.fiber), FIBER_DONE);
        CHECK(at == &relay.runners[1]);
        int over = 2;
        pass_on(&over);
        runner_leave(at); /* RUNNER-2: perhaps on the other worker's thread */
    }
    pthread_mutex_lock(&relay.lock);
    while (relay.turn != me && relay.turn != 2) {
        pthread_cond_wait(&relay.changed, &relay.lock);
    }
    bool over = relay.turn == 2;
    relay.turn = over ? 2 : -1;
    pthread_mutex_unlock(&relay.lock);
    if (over) {
        runner_leave(at);
    }
    runner_resume(at, &relay.fiber);
}

static void *
relay_thread(void *arg)
{
    struct stack_cache cache;
    struct overflow_thread thread;
    stack_cache_init(&cache, &world.pool);
    CHECK_EQUAL(overflow_thread_enter(&thread, NULL), 0);
    runner_init(arg, &cache, relay_loop, NULL);
    CHECK_EQUAL(runner_enter(arg), 0);
    overflow_thread_leave(&thread);
    stack_cache_close(&cache);
    return NULL;
}

static void
test_fibers_and_loops_migrate(void)
{
    pthread_t threads[2];
    memset(&relay, 0, sizeof relay);
    pthread_mutex_init(&relay.lock, NULL);
    pthread_cond_init(&relay.changed, NULL);
    relay.turn = -1;
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, relay_thread, &relay.runners[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(relay.visits[0], LEGS / 2 + 1);
    CHECK_EQUAL(relay.visits[1], LEGS / 2);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

static int64_t
panics_above(void *arg)
{
    (void)arg;
    (void)fiber_panic(11);
    return 0;
}

static int64_t
looks_around(void *arg)
{
    (void)arg;
    CHECK(fiber_self() == &script.b && under_my_feet() == script.a.stack && runner.stack == script.a.stack);
    return 3;
}

static struct runner_perch perch;

static void
two_above(void *arg)
{
    int *calls = arg;
    *calls += 1;
    fiber_init(&script.b, "above", looks_around, NULL, 0);
    CHECK_EQUAL(runner_call_above(&perch, &script.a, &script.b), FIBER_DONE);
    CHECK_EQUAL(script.b.result, 3);
    CHECK(fiber_self() == &script.a && script.a.stack->recover == perch.recover && script.b.stack == NULL);
    if (*calls == 1) {
        fiber_init(&script.b, "above", panics_above, NULL, 0);
        (void)runner_call_above(&perch, &script.a, &script.b);
        CHECK(false); /* a panic does not return here */
    }
}

/* RUNNER-8: one fiber calls several others above its own frames; they end or panic, and it continues. */
static int64_t
calls_above(void *arg)
{
    struct fiber *self = arg;
    void *recover = self->stack->recover;
    int calls = 0;
    CHECK(runner_perch_on(&perch, self, two_above, &calls) == &script.b);
    CHECK_EQUAL(script.b.state, FIBER_PANICKED);
    CHECK_EQUAL(script.b.code, 11);
    CHECK(fiber_self() == self && self->stack->recover == recover && script.b.stack == NULL);
    CHECK(runner_perch_on(&perch, self, two_above, &calls) == NULL);
    CHECK(fiber_self() == self && self->stack->recover == recover);
    CHECK_EQUAL(calls, 2);
    return 4;
}

static void
test_loop_above(struct runner *at)
{
    fiber_init(&script.a, "beneath", calls_above, &script.a, 0);
    CHECK_EQUAL(runner_call(&at, &script.a), FIBER_DONE);
    CHECK_EQUAL(script.a.result, 4);
    runner_leave(at);
}

static void
test_called_above(void)
{
    memset(&script, 0, sizeof script);
    runner_init(&runner, &world.cache, test_loop_above, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

int
main(void)
{
    world_begin(&world, NULL);
    test_called_on_the_loops_stack();
    test_called_above();
    test_parks_and_keeps_the_stack();
    test_switches_directly();
    test_disasters_end_the_call();
    test_hops_to_bigger_stacks();
    test_fibers_and_loops_migrate();
    world_end(&world);
    return finish();
}
