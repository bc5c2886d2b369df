/* The owner table: what was put in is found, once, whatever else came and went; from one thread and from many. */

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "python/memory/owners.h"

#define BLOCKS 20000
#define THREADS 4
#define ROUNDS 15000
#define SHELVES 2048 /* enough that the sets grow while others take out of them */
#define CLEARS 40
#define TOKENS 1024

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
put(uintptr_t block, int64_t bytes, bool alone)
{
    Owned owned = {.block = block, .bytes = bytes, .account = (void *)(block * 3), .arena = bytes % 2 != 0};
    return owners_put(&owned, alone);
}

static bool
taken(uintptr_t block, int64_t bytes, bool alone)
{
    Owned owned = {0};
    return owners_take((void *)block, &owned, alone) && owned.block == block && owned.bytes == bytes &&
           owned.account == (void *)(block * 3) && owned.arena == (bytes % 2 != 0);
}

static size_t visited;

static void
visit(const Owned *owned)
{
    visited += owned->block != 0;
}

/* Who puts and who takes may each be alone or not. */
static void
test_one(bool puts_alone, bool takes_alone)
{
    Owned owned = {.bytes = 7};
    CHECK(!owners_take((void *)0x1000, &owned, takes_alone));
    CHECK(owned.bytes == 7);
    CHECK(put(0x1000, 600, puts_alone));
    CHECK_EQUAL(owners_count(), 1);
    CHECK(!owners_take((void *)0x1010, &owned, takes_alone));
    CHECK(taken(0x1000, 600, takes_alone));
    CHECK(!owners_take((void *)0x1000, &owned, takes_alone));
    CHECK_EQUAL(owners_count(), 0);
}

/* A block whose release was not seen: both entries come out, one for each time that the address is freed. */
static void
test_unseen(bool first_alone, bool then_alone)
{
    Owned one = {0}, other = {0}, none;
    CHECK(put(0x2000, 600, first_alone));
    CHECK(put(0x2000, 900, then_alone));
    CHECK_EQUAL(owners_count(), 2);
    CHECK(owners_take((void *)0x2000, &one, true));
    CHECK(owners_take((void *)0x2000, &other, false));
    CHECK_EQUAL(one.bytes + other.bytes, 1500);
    CHECK(!owners_take((void *)0x2000, &none, true));
    CHECK_EQUAL(owners_count(), 0);
}

/* Blocks as an allocator hands them out: a page apart, 16 bytes apart, and all over the place. Every `of` th time who
 * puts is not alone, and likewise who takes. */
static void
test_many(uintptr_t first, uintptr_t apart, uint32_t of)
{
    static uint32_t order[BLOCKS];
    bool all = true;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        order[i] = i;
        all &= put(first + i * apart, i, i % of != 0);
    }
    CHECK(all);
    CHECK_EQUAL(owners_count(), BLOCKS);
    for (uint32_t i = BLOCKS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(next_of(&seed) % (i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        all &= taken(first + order[i] * apart, order[i], i % of != 0);
        if (i % 2 == 0) { /* others come while these go */
            all &= put(first + (BLOCKS + i) * apart, i, i % of != 0);
        }
    }
    CHECK(all);
    CHECK_EQUAL(owners_count(), BLOCKS / 2);
    visited = 0;
    owners_clear(visit);
    CHECK_EQUAL(visited, BLOCKS / 2);
    CHECK_EQUAL(owners_count(), 0);
    CHECK(!taken(first, 0, true));
    CHECK(!taken(first, 0, false));
}

/* Threads allocate real blocks, lay them on shelves and free what lay there, whoever put it there. Who has the baton is
 * alone, as who has the GIL; the others do the same without it, meanwhile. */
static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int64_t *) shelves[SHELVES];

static bool
give_back(int64_t *block, bool alone)
{
    if (block == NULL) {
        return true;
    }
    bool good = taken((uintptr_t)block, *block, alone); /* before the allocator can hand it out again */
    free(block);
    return good;
}

static bool
work_once(uint64_t chance, bool alone)
{
    int64_t bytes = 513 + (int64_t)(chance % 4096);
    int64_t *block = malloc((size_t)bytes);
    if (block == NULL) {
        return false;
    }
    *block = bytes;
    return put((uintptr_t)block, bytes, alone) &&
           give_back(atomic_exchange(&shelves[(chance >> 32) % SHELVES], block), alone);
}

static void *
work(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    bool good = true;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t chance = next_of(&state);
        bool alone = (chance >> 20) % 4 != 0 && pthread_mutex_trylock(&baton) == 0;
        good &= work_once(chance, alone);
        if (alone) {
            good &= pthread_mutex_unlock(&baton) == 0;
        }
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
        good &= give_back(atomic_exchange(&shelves[i], NULL), i % 2 == 0);
    }
    CHECK(good);
    CHECK_EQUAL(owners_count(), 0);
}

/* The table is cleared while others take out of it: each entry is visited or taken, never both, never neither. */
static _Atomic uintptr_t offered[TOKENS];
static atomic_size_t taken_meanwhile;
static atomic_bool over;

static void *
take_offers(void *argument)
{
    Owned owned;
    for (size_t i = 0; !atomic_load(&over); i++) {
        uintptr_t block = atomic_exchange(&offered[i % TOKENS], 0);
        if (block != 0 && owners_take((void *)block, &owned, false)) {
            atomic_fetch_add(&taken_meanwhile, 1);
        }
    }
    return argument;
}

static void
test_clear_meanwhile(void)
{
    pthread_t threads[THREADS];
    bool all = true;
    visited = 0;
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, take_offers, NULL) == 0);
    }
    uintptr_t block = 0x7f0000000000;
    for (size_t i = 0; i < CLEARS * TOKENS; i++) {
        block += 1056; /* never the same again: a block is freed once */
        all &= put(block, 600, i % 8 != 0);
        atomic_store(&offered[i % TOKENS], block);
        if (i % TOKENS == TOKENS - 1) {
            owners_clear(visit);
        }
    }
    CHECK(all);
    atomic_store(&over, true);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_EQUAL(visited + atomic_load(&taken_meanwhile), CLEARS * TOKENS);
    CHECK_EQUAL(owners_count(), 0);
    atomic_store(&over, false);
}

/* A child of a process whose other threads are in the table finds it usable. */
static void *
churn(void *argument)
{
    for (uintptr_t i = 1; !atomic_load(&over); i++) {
        (void)put(i % 1024 * 16 + 16, 600, i % 3 != 0);
        (void)taken(i % 1024 * 16 + 16, 600, i % 5 != 0);
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
            bool all = true;
            for (uintptr_t at = 1; at < 64; at++) { /* every shard */
                all &= put(at << 20, 600, false) && taken(at << 20, 600, false);
            }
            _exit(all ? 0 : 1);
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
    for (int i = 0; i < 4; i++) {
        test_one(i % 2 != 0, i / 2 != 0);
        test_unseen(i % 2 != 0, i / 2 != 0);
    }
    test_many(0x7f0000000000, 16, 1);
    test_many(0x7f0000000010, 4096, 2);
    test_many(0x55550000, 1056, 7);
    test_many(0x55550000, 8208, BLOCKS);
    test_threads();
    test_clear_meanwhile();
    test_fork();
    owners_clear(visit);
    return finish();
}
