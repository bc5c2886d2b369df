/* Fibers: states, results, suspension, nesting, migration, panics from inside (FIBER-1 to FIBER-8). */

#include "world.h"

#include <pthread.h>

static struct world world;

static int64_t
doubled(void *arg)
{
    return *(int64_t *)arg * 2;
}

/* It runs, gets its argument and returns its value; the stack is taken at the first run (FIBER-1). */
static void
test_runs_to_its_end(void)
{
    struct fiber fiber;
    int64_t number = 21;
    uint64_t before = world_statistics(&world).in_use;
    fiber_init(&fiber, "doubled", doubled, &number, 0);
    CHECK_EQUAL(fiber.state, FIBER_FRESH);
    CHECK_EQUAL(world_statistics(&world).in_use, before);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
    CHECK_EQUAL(fiber.result, 42);
    CHECK(fiber.stack == NULL);
    CHECK_EQUAL(world_statistics(&world).in_use, before);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_REFUSED);
    CHECK_EQUAL(fiber.state, FIBER_DONE);
}

static struct fiber steps;

static int64_t
step_by_step(void *arg)
{
    int *counter = arg;
    for (int i = 0; i < 1000; i++) {
        *counter += 1;
        fiber_suspend(&steps);
    }
    return *counter;
}

static void
test_suspends_and_goes_on(void)
{
    int counter = 0;
    fiber_init(&steps, "steps", step_by_step, &counter, 0);
    for (int i = 1; i <= 1000; i++) {
        CHECK_EQUAL(fiber_resume(&world.cache, &steps), FIBER_SUSPENDED);
        CHECK_EQUAL(counter, i);
    }
    CHECK_EQUAL(world_statistics(&world).in_use, 1);
    CHECK_EQUAL(fiber_resume(&world.cache, &steps), FIBER_DONE);
    CHECK_EQUAL(steps.result, 1000);
}

/* A running fiber cannot be run again, by itself or by a fiber that it resumed. */
static int64_t
resumes_itself(void *arg)
{
    CHECK_EQUAL(fiber_resume(&world.cache, arg), FIBER_REFUSED);
    CHECK_EQUAL(fiber_discard(&world.cache, arg), EINVAL);
    CHECK(fiber_self() == arg);
    CHECK(fiber_headroom(arg) > 4096 && fiber_headroom(arg) < (STACK_BYTES_MIN << 2));
    return 7;
}

static void
test_refuses_what_is_running(void)
{
    struct fiber fiber;
    fiber_init(&fiber, "selfish", resumes_itself, &fiber, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
    CHECK_EQUAL(fiber.result, 7);
    CHECK(fiber_self() == NULL);
}

static void
test_create_run_recycle(void)
{
    struct fiber fiber;
    int64_t number = 1, sum = 0;
    uint64_t stacks = world_statistics(&world).stacks;
    for (int i = 0; i < FEW(100000); i++) {
        fiber_init(&fiber, "one of many", doubled, &number, 0);
        sum += fiber_resume(&world.cache, &fiber) == FIBER_DONE ? fiber.result : 1000000;
    }
    CHECK_EQUAL(sum, 2 * FEW(100000));
    CHECK_EQUAL(world_statistics(&world).stacks, stacks); /* no new stack was cut (STACK-6) */
}

#define DEPTH FEW(1000)
static struct fiber tower[DEPTH];

/* Each resumes the next, suspends once on the way up, and returns one more than the next did. */
static int64_t
storey(void *arg)
{
    struct fiber *self = arg;
    if (self == &tower[DEPTH - 1]) {
        fiber_suspend(self);
        return 1;
    }
    fiber_init(self + 1, "storey", storey, self + 1, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, self + 1), FIBER_SUSPENDED);
    fiber_suspend(self);
    CHECK_EQUAL(fiber_resume(&world.cache, self + 1), FIBER_DONE);
    return self[1].result + 1;
}

static void
test_nested_a_thousand_deep(void)
{
    fiber_init(&tower[0], "storey", storey, &tower[0], 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &tower[0]), FIBER_SUSPENDED);
    CHECK_EQUAL(world_statistics(&world).in_use, DEPTH);
    CHECK_EQUAL(fiber_resume(&world.cache, &tower[0]), FIBER_DONE);
    CHECK_EQUAL(tower[0].result, DEPTH);
}

static struct fiber wanderer;

static int64_t
wanders(void *arg)
{
    int64_t *log = arg;
    for (int i = 0; i < 6; i++) {
        log[i] = (int64_t)i * 10;
        fiber_suspend(&wanderer);
    }
    return 60;
}

static void *
carries_on(void *arg)
{
    struct stack_cache cache;
    struct overflow_thread thread;
    stack_cache_init(&cache, &world.pool);
    CHECK_EQUAL(overflow_thread_enter(&thread, NULL), 0);
    *(enum fiber_state *)arg = fiber_resume(&cache, &wanderer);
    overflow_thread_leave(&thread);
    stack_cache_close(&cache);
    return NULL;
}

/* Begun here, continued on six other threads, ended on a seventh, which keeps the stack (FIBER-2). */
static void
test_wanders_between_threads(void)
{
    int64_t log[6] = {-1, -1, -1, -1, -1, -1};
    fiber_init(&wanderer, "wanderer", wanders, log, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &wanderer), FIBER_SUSPENDED);
    for (int i = 1; i <= 6; i++) {
        pthread_t thread;
        enum fiber_state state = FIBER_REFUSED;
        CHECK_EQUAL(pthread_create(&thread, NULL, carries_on, &state), 0);
        pthread_join(thread, NULL);
        CHECK_EQUAL(state, i < 6 ? FIBER_SUSPENDED : FIBER_DONE);
    }
    CHECK_EQUAL(log[5], 50);
    CHECK_EQUAL(wanderer.result, 60);
}

static int64_t
gives_up(void *arg)
{
    fiber_panic(*(int32_t *)arg);
    return 0;
}

static void
test_panics_from_inside(void)
{
    struct fiber fiber;
    int32_t code = -77;
    CHECK_EQUAL(fiber_panic(1), EINVAL); /* not on a fiber */
    for (int i = 0; i < 100; i++) {
        fiber_init(&fiber, "quitter", gives_up, &code, 0);
        CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
    }
    CHECK_EQUAL(fiber.panic, FIBER_PANIC_CALLED);
    CHECK_EQUAL(fiber.code, -77);
    CHECK(strcmp(fiber.name, "quitter") == 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_REFUSED);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
    CHECK_EQUAL(world_statistics(&world).retired, 0);
}

static struct fiber child;

static int64_t
parent_of_a_quitter(void *arg)
{
    fiber_init(&child, "child", gives_up, arg, 0);
    return fiber_resume(&world.cache, &child) == FIBER_PANICKED ? 5 : 6;
}

/* A panic ends only the innermost fiber. */
static void
test_a_panic_returns_to_the_resumer(void)
{
    struct fiber parent;
    int32_t code = 3;
    fiber_init(&parent, "parent", parent_of_a_quitter, &code, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &parent), FIBER_DONE);
    CHECK_EQUAL(parent.result, 5);
}

static void
test_discard(void)
{
    struct fiber fresh;
    int counter = 0;
    fiber_init(&fresh, "fresh", doubled, NULL, 0);
    CHECK_EQUAL(fiber_discard(&world.cache, &fresh), 0);
    CHECK_EQUAL(fresh.state, FIBER_DONE);
    fiber_init(&steps, "steps", step_by_step, &counter, 0);
    fiber_resume(&world.cache, &steps);
    CHECK_EQUAL(fiber_discard(&world.cache, &steps), 0);
    CHECK_EQUAL(counter, 1);
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
    CHECK_EQUAL(fiber_discard(&world.cache, &steps), EINVAL);
}

/* A fiber gets at least the room of its class. */
static int64_t
fills(void *arg)
{
    size_t bytes = *(size_t *)arg;
    char *bottom = (char *)__builtin_frame_address(0) - bytes + 1024;
    return stack_find(bottom) == stack_find(__builtin_frame_address(0)) && bottom >= stack_find(bottom)->limit;
}

static void
test_stack_sizes(void)
{
    struct fiber fiber;
    for (unsigned class = 0; class < STACK_CLASSES; class++) {
        size_t bytes = STACK_BYTES_MIN << class;
        CHECK_EQUAL(stack_class(bytes), class);
        CHECK_EQUAL(stack_class(bytes - 1), class);
        CHECK_EQUAL(stack_class(bytes + 1), class + 1);
        fiber_init(&fiber, "filler", fills, &bytes, class);
        CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
        CHECK_EQUAL(fiber.result, 1);
    }
    CHECK_EQUAL(stack_class(0), 0);
    CHECK_EQUAL(stack_class(SIZE_MAX), STACK_CLASSES);
}

int
main(void)
{
    world_begin(&world, NULL);
    test_runs_to_its_end();
    test_suspends_and_goes_on();
    test_refuses_what_is_running();
    test_create_run_recycle();
    test_nested_a_thousand_deep();
    test_wanders_between_threads();
    test_panics_from_inside();
    test_a_panic_returns_to_the_resumer();
    test_discard();
    test_stack_sizes();
    world_end(&world);
    return finish();
}
