/* The pool and its caches: order, exchange, sizes, trimming, closing, statistics (STACK-1 to STACK-9). */

#include "world.h"

#include <sys/mman.h>

static struct world world;

static void
test_options_out_of_range(void)
{
    struct stack_pool pool;
    struct stack_options bad[] = {
        {.arena_bytes = 3 << 20},         {.arena_bytes = 1 << 19},       {.guard_bytes = 100},
        {.guard_bytes = (size_t)1 << 30}, {.guard = (enum stack_guard)3},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQUAL(stack_pool_init(&pool, &bad[i]), EINVAL);
    }
}

/* The stack that was put back last is taken first (STACK-6), and a get after a put makes no new stack. */
static void
test_last_in_first_out(void)
{
    struct stack *a = stack_cache_get(&world.cache, 0), *b = stack_cache_get(&world.cache, 0);
    CHECK(a != NULL && b != NULL && a != b);
    stack_cache_put(&world.cache, a);
    stack_cache_put(&world.cache, b);
    CHECK(stack_cache_get(&world.cache, 0) == b);
    CHECK(stack_cache_get(&world.cache, 0) == a);
    stack_cache_put(&world.cache, b);
    stack_cache_put(&world.cache, a);
}

/* STACK-1, STACK-2: stacks do not overlap, are aligned, coloured and guarded, and are found by their addresses. */
static void
test_where_stacks_lie(void)
{
    enum { MANY = 200 };
    struct stack *stacks[MANY];
    unsigned tops[STACK_COLOURS] = {0};
    for (int i = 0; i < MANY; i++) {
        struct stack *stack = stacks[i] = stack_cache_get(&world.cache, 0);
        CHECK_EQUAL((uintptr_t)stack->top % 64, 0);
        CHECK((size_t)(stack->top - stack->limit) >= STACK_BYTES_MIN);
        CHECK(stack_find(stack->limit) == stack && stack_find(stack->top - 1) == stack);
        CHECK(stack_find(stack->limit - 1) == stack); /* its guard belongs to it */
        CHECK(!stack_system_linux.readable(NULL, stack->limit - 1));
        CHECK(stack_system_linux.readable(NULL, stack->limit));
        tops[(uintptr_t)stack->top / STACK_COLOUR_BYTES % STACK_COLOURS]++;
        stack->limit[0] = (char)i;
        stack->top[-1] = (char)i;
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(stacks[i]->limit[0] == (char)i && stacks[i]->top[-1] == (char)i);
        stack_cache_put(&world.cache, stacks[i]);
    }
    for (unsigned colour = 0; colour < STACK_COLOURS; colour++) {
        CHECK(tops[colour] >= MANY / STACK_COLOURS - 1);
    }
    CHECK(stack_find(&world) == NULL && stack_find(NULL) == NULL && stack_find(tops) == NULL);
}

/* One worker uses the stacks that another one put back: no new stacks are made (STACK-4). */
static void
test_caches_exchange_through_the_pool(void)
{
    enum { MANY = 1000 };
    static struct stack *stacks[MANY];
    struct stack_cache other;
    stack_cache_init(&other, &world.pool);
    for (int i = 0; i < MANY; i++) {
        stacks[i] = stack_cache_get(&world.cache, 0);
    }
    uint64_t made = world_statistics(&world).stacks;
    CHECK_EQUAL(world_statistics(&world).in_use, MANY);
    for (int i = 0; i < MANY; i++) {
        stack_cache_put(&other, stacks[i]);
    }
    CHECK(world_statistics(&world).cached <= 4 * STACK_MAGAZINE);
    for (int i = 0; i < MANY; i++) {
        stacks[i] = stack_cache_get(&world.cache, 0);
    }
    CHECK(world_statistics(&world).stacks <= made + 2 * STACK_MAGAZINE); /* the other cache still holds some */
    for (int i = 0; i < MANY; i++) {
        stack_cache_put(&world.cache, stacks[i]);
    }
    stack_cache_close(&other);
}

static bool
resident(struct stack *stack)
{
    unsigned char in_memory[2] = {0, 0};
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    mincore((void *)((uintptr_t)(stack->top - 1) / page_bytes * page_bytes), page_bytes, in_memory);
    return (in_memory[0] & 1) != 0;
}

/* A trim gives memory back. Addresses and guards stay while one stack of the arena is in use; then the arena is
 * unmapped. */
static void
test_trim(void)
{
    struct stack *held = stack_cache_get(&world.cache, 0), *stack = stack_cache_get(&world.cache, 0);
    held->top[-1] = stack->top[-1] = 1;
    CHECK(resident(stack));
    stack_cache_put(&world.cache, stack);
    CHECK_EQUAL(stack_pool_trim(&world.pool), 0);
    CHECK(resident(stack)); /* a trim does not touch cached stacks */
    stack_cache_flush(&world.cache);
    CHECK_EQUAL(world_statistics(&world).cached, 0);
    CHECK_EQUAL(stack_pool_trim(&world.pool), 0);
    struct stack_statistics now = world_statistics(&world);
    CHECK(!resident(stack) && resident(held) && held->top[-1] == 1);
    CHECK(now.trimmed_bytes > 0 && now.arenas == 1 && now.in_use == 1);
    CHECK_EQUAL(now.guards[now.rung], now.stacks);
    stack_cache_put(&world.cache, held);
    stack_cache_flush(&world.cache);
    CHECK_EQUAL(stack_pool_trim(&world.pool), 0);
    now = world_statistics(&world);
    CHECK(now.arenas == 0 && now.mapped_bytes == 0 && now.stacks == 0 && now.guards[now.rung] == 0);
    stack = stack_cache_get(&world.cache, 0);
    CHECK(stack != NULL && world_statistics(&world).arenas == 1);
    stack_cache_put(&world.cache, stack);
}

static void
test_closing_refuses_while_in_use(void)
{
    struct stack_pool pool;
    struct stack_cache cache;
    CHECK_EQUAL(stack_pool_init(&pool, NULL), 0);
    stack_cache_init(&cache, &pool);
    struct stack *stack = stack_cache_get(&cache, 0);
    CHECK_EQUAL(stack_pool_close(&pool), EBUSY); /* a cache is open */
    stack_cache_put(&cache, stack);
    stack = stack_cache_get(&cache, 2);
    stack->top[-1] = 1;
    stack_cache_close(&cache);
    CHECK_EQUAL(stack_pool_close(&pool), EBUSY); /* a stack is in use */
    CHECK_EQUAL(stack->top[-1], 1);
    stack_cache_init(&cache, &pool);
    stack_cache_put(&cache, stack);
    stack_cache_close(&cache);
    CHECK_EQUAL(stack_pool_close(&pool), 0);
}

/* Several pools at once, with small arenas and more stacks than one arena has. */
static void
test_arenas_and_pools_side_by_side(void)
{
    struct stack_options options = {.arena_bytes = STACK_BYTES_MIN << 7}; /* 1 MiB, or 8 under a sanitizer */
    struct stack_pool pools[3];
    struct stack_cache caches[3];
    struct stack *stacks[3][200];
    for (int p = 0; p < 3; p++) {
        CHECK_EQUAL(stack_pool_init(&pools[p], &options), 0);
        stack_cache_init(&caches[p], &pools[p]);
        for (int i = 0; i < 200; i++) {
            stacks[p][i] = stack_cache_get(&caches[p], 0);
        }
        struct stack_statistics now;
        stack_pool_statistics(&pools[p], &now);
        CHECK(now.arenas > 2 && now.mapped_bytes == now.arenas * options.arena_bytes && now.in_use == 200);
    }
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < 200; i++) {
            CHECK(stack_find(stacks[p][i]->top - 8) == stacks[p][i]);
            stack_cache_put(&caches[p], stacks[p][i]);
        }
        const char *gone = stacks[p][0]->top;
        stack_cache_close(&caches[p]);
        CHECK_EQUAL(stack_pool_close(&pools[p]), 0);
        CHECK(stack_find(gone - 8) == NULL);
    }
}

/* Threads take stacks and put them back at random, with trims in between: no stack is in use twice. */
#define ROUNDS FEW(200000)

static void *
churns(void *arg)
{
    struct stack_cache cache;
    struct stack *mine[128] = {NULL};
    uint64_t random = (uint64_t)(uintptr_t)arg * 2654435761u + 1;
    unsigned stolen = 0;
    stack_cache_init(&cache, &world.pool);
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct stack **place = &mine[random >> 57];
        if (*place == NULL) {
            *place = stack_cache_get(&cache, (unsigned)(random >> 40) % 2);
            if (*place != NULL) {
                *(uint64_t *)(void *)((*place)->top - 8) = (uint64_t)(uintptr_t)place;
            }
        } else {
            stolen += *(uint64_t *)(void *)((*place)->top - 8) != (uint64_t)(uintptr_t)place;
            stack_cache_put(&cache, *place);
            *place = NULL;
        }
        if (i % (ROUNDS / 4) == 0) {
            CHECK_EQUAL(stack_pool_trim(&world.pool), 0);
        }
    }
    for (int i = 0; i < 128; i++) {
        if (mine[i] != NULL) {
            stack_cache_put(&cache, mine[i]);
        }
    }
    stack_cache_close(&cache);
    CHECK_EQUAL(stolen, 0);
    return NULL;
}

static void
test_many_threads(void)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, churns, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(world_statistics(&world).in_use, 0);
}

int
main(void)
{
    test_options_out_of_range();
    world_begin(&world, NULL);
    test_last_in_first_out();
    test_where_stacks_lie();
    test_caches_exchange_through_the_pool();
    test_trim();
    test_closing_refuses_while_in_use();
    test_arenas_and_pools_side_by_side();
    test_many_threads();
    world_end(&world);
    return finish();
}
