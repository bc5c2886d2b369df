/* The owner table: what was put in is found, once, whatever else came and went; from one thread and from many. */

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "python/owners.h"

#define BLOCKS 20000
#define THREADS 4
#define ROUNDS 15000
#define SHELVES 256

static uint64_t seed = 1;

static uint64_t
next_of(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool
put(uintptr_t block, int64_t bytes)
{
    Owned owned = {.block = block, .bytes = bytes, .account = (void *)(block * 3), .arena = bytes % 2 != 0};
    return owners_put(&owned);
}

static bool
taken(uintptr_t block, int64_t bytes)
{
    Owned owned = {0};
    return owners_take((void *)block, &owned) && owned.block == block && owned.bytes == bytes
           && owned.account == (void *)(block * 3) && owned.arena == (bytes % 2 != 0);
}

static size_t visited;

static void
visit(const Owned *owned)
{
    visited += owned->block != 0;
}

static void
test_one(void)
{
    Owned owned = {.bytes = 7};
    CHECK(!owners_take((void *)0x1000, &owned));
    CHECK(owned.bytes == 7);
    CHECK(put(0x1000, 600));
    CHECK_EQUAL(owners_count(), 1);
    CHECK(!owners_take((void *)0x1010, &owned));
    CHECK(taken(0x1000, 600));
    CHECK(!owners_take((void *)0x1000, &owned));
    CHECK_EQUAL(owners_count(), 0);
}

/* A block whose release was not seen: the new owner takes its place. */
static void
test_replaced(void)
{
    CHECK(put(0x2000, 600));
    CHECK(put(0x2000, 900));
    CHECK_EQUAL(owners_count(), 1);
    CHECK(taken(0x2000, 900));
}

/* Blocks as an allocator hands them out: a page apart, 16 bytes apart, and all over the place. */
static void
test_many(uintptr_t first, uintptr_t apart)
{
    static uint32_t order[BLOCKS];
    bool all = true;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        order[i] = i;
        all &= put(first + i * apart, i);
    }
    CHECK(all);
    CHECK_EQUAL(owners_count(), BLOCKS);
    for (uint32_t i = BLOCKS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(next_of(&seed) % (i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        all &= taken(first + order[i] * apart, order[i]);
        if (i % 2 == 0) { /* others come while these go */
            all &= put(first + (BLOCKS + i) * apart, i);
        }
    }
    CHECK(all);
    CHECK_EQUAL(owners_count(), BLOCKS / 2);
    visited = 0;
    owners_clear(visit);
    CHECK_EQUAL(visited, BLOCKS / 2);
    CHECK_EQUAL(owners_count(), 0);
    CHECK(!taken(first, 0));
}

/* Threads allocate real blocks, lay them on shelves and free what lay there, whoever put it there. */
static _Atomic(int64_t *) shelves[SHELVES];

static bool
give_back(int64_t *block)
{
    if (block == NULL) {
        return true;
    }
    bool good = taken((uintptr_t)block, *block); /* before the allocator can hand it out again */
    free(block);
    return good;
}

static void *
work(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    bool good = true;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t chance = next_of(&state);
        int64_t bytes = 513 + (int64_t)(chance % 4096);
        int64_t *block = malloc((size_t)bytes);
        if (block == NULL) {
            return NULL;
        }
        *block = bytes;
        good &= put((uintptr_t)block, bytes);
        good &= give_back(atomic_exchange(&shelves[(chance >> 32) % SHELVES], block));
    }
    return good ? argument : NULL;
}

static void
test_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (uintptr_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        CHECK(pthread_join(threads[i], &result) == 0);
        CHECK(result == (void *)(i + 1));
    }
    bool good = true;
    for (size_t i = 0; i < SHELVES; i++) {
        good &= give_back(atomic_exchange(&shelves[i], NULL));
    }
    CHECK(good);
    CHECK_EQUAL(owners_count(), 0);
}

/* A child of a process whose other threads are in the table finds it usable. */
static atomic_bool over;

static void *
churn(void *argument)
{
    for (uintptr_t i = 1; !atomic_load(&over); i++) {
        (void)put(i % 1024 * 16 + 16, 600);
        (void)taken(i % 1024 * 16 + 16, 600);
    }
    return argument;
}

static void
test_fork(void)
{
    pthread_t thread;
    CHECK(owners_survive_fork());
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (uintptr_t at = 1; at < 64; at++) { /* every shard */
                (void)put(at << 20, 600);
            }
            _exit(0);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

int
main(void)
{
    test_one();
    test_replaced();
    test_many(0x7f0000000000, 16);
    test_many(0x7f0000000010, 4096);
    test_many(0x55550000, 1056);
    test_threads();
    test_fork();
    owners_clear(visit);
    return finish();
}
