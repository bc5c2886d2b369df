/* The deque with real threads: an owner that pushes and takes in bursts, thieves of three kinds, every piece exactly
 * once.
 *
 * The first capacity is 1, so the deque grows while thieves steal. Bursts end on the last item again and again.
 */
#include "stress.h"

#include "engine/deque.h"

enum { THIEVES_MAX = 8 };

typedef struct {
    Deque deque;
    Deque own[THIEVES_MAX];
    Piece *pieces;
    size_t count;
    atomic_u32 done;
    atomic_u32 wrong;
} Shared;

typedef struct {
    Shared *shared;
    unsigned index;
    unsigned wrong, got;
} Thief;

static void
thief_look(Thief *thief)
{
    Shared *shared = thief->shared;
    void *items[DEQUE_BATCH_MAX], *own;
    size_t count = 0;
    Piece *last = NULL;
    if (thief->index % 3 == 0) {
        count = deque_steal(&shared->deque, &items[0]) == STEAL_DONE;
    } else if (thief->index % 3 == 1) {
        deque_steal_batch(&shared->deque, items, DEQUE_BATCH_MAX, &count);
    } else if (deque_steal_into(&shared->deque, &shared->own[thief->index], &items[0], &count) == STEAL_DONE) {
        for (size_t i = count - 1; i > 0; i--) {
            items[i] = own = deque_take(&shared->own[thief->index]);
            thief->wrong += own == NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        Piece *piece = items[i];
        thief->wrong += piece_got(piece, shared->pieces) + (piece <= last); /* in order of age */
        last = piece;
        thief->got++;
    }
}

static void *
thief_main(void *argument)
{
    Thief *thief = argument;
    while (load_u32(&thief->shared->done, ACQUIRE) == 0) {
        unsigned before = thief->got;
        thief_look(thief);
        if (thief->got == before) {
            sched_yield(); /* there may be more thieves than processors */
        }
    }
    add_u32(&thief->shared->wrong, thief->wrong, RELAXED);
    return NULL;
}

static unsigned
owner(Shared *shared, uint64_t seed)
{
    size_t next = 0;
    unsigned wrong = 0;
    while (next < shared->count) {
        size_t pushes = random_next(&seed) % (random_next(&seed) % 16 == 0 ? 500 : 4);
        size_t takes = random_next(&seed) % (random_next(&seed) % 16 == 0 ? 500 : 4);
        for (; pushes > 0 && next < shared->count; pushes--, next++) {
            shared->pieces[next].secret = secret_of(next);
            wrong += !deque_push(&shared->deque, &shared->pieces[next]);
        }
        Piece *newest = NULL;
        for (; takes > 0; takes--) {
            Piece *piece = deque_take(&shared->deque);
            if (piece == NULL) {
                break;
            }
            wrong += piece_got(piece, shared->pieces) + (newest != NULL && piece >= newest); /* newest first */
            newest = piece;
        }
    }
    for (Piece *piece; (piece = deque_take(&shared->deque)) != NULL;) {
        wrong += piece_got(piece, shared->pieces);
    }
    return wrong;
}

static void
test(unsigned thieves, size_t count, uint64_t seed)
{
    Shared *shared = engine_allocator_libc.allocate(NULL, sizeof *shared);
    pthread_t threads[THIEVES_MAX];
    Thief thief[THIEVES_MAX];
    CHECK(deque_init(&shared->deque, 1, &engine_allocator_libc));
    shared->pieces = pieces_make(count);
    shared->count = count;
    init_u32(&shared->done, 0);
    init_u32(&shared->wrong, 0);
    for (unsigned i = 0; i < thieves; i++) {
        CHECK(deque_init(&shared->own[i], 1, &engine_allocator_libc));
        thief[i] = (Thief){.shared = shared, .index = i};
        thread_start(&threads[i], thief_main, &thief[i]);
    }
    unsigned wrong = owner(shared, seed);
    store_u32(&shared->done, 1, RELEASE);
    for (unsigned i = 0; i < thieves; i++) {
        pthread_join(threads[i], NULL);
        deque_destroy(&shared->own[i]);
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(load_u32(&shared->wrong, RELAXED), 0);
    CHECK_EQUAL(pieces_missing(shared->pieces, count), 0);
    deque_destroy(&shared->deque);
    free(shared->pieces);
    engine_allocator_libc.release(NULL, shared, sizeof *shared);
}

int
main(int argc, char **argv)
{
    size_t count = long_form(argc, argv) ? 20000000 : 200000;
    for (unsigned thieves = 1; thieves <= 4; thieves++) {
        test(thieves, count, thieves);
    }
    test(THIEVES_MAX, count, 99);
    return finish();
}
