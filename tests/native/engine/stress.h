/* What the stress tests share: threads that start together, and pieces of work that must be taken exactly once. */
#ifndef STRESS_H
#define STRESS_H

#include "check.h"

#include <pthread.h>
#include <sched.h>

#include "engine/atomics.h"

/* A piece of work. `secret` is plain memory: it is right only if what was published was also received. If not, the
 * thread sanitizer reports it. */
typedef struct {
    uint64_t secret;
    atomic_u32 times;
} Piece;

static inline uint64_t
secret_of(uint64_t number)
{
    return number * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

/* A thread took it. Returns 1 if something is wrong. */
static inline unsigned
piece_got(Piece *piece, const Piece *all)
{
    bool again = add_u32(&piece->times, 1, RELAXED) != 0;
    return again || piece->secret != secret_of((uint64_t)(piece - all)) ? 1 : 0;
}

static inline Piece *
pieces_make(size_t count)
{
    Piece *pieces = calloc(count, sizeof *pieces);
    if (pieces == NULL) {
        perror("calloc");
        exit(EXIT_FAILURE);
    }
    return pieces;
}

static inline unsigned
pieces_missing(Piece *pieces, size_t count)
{
    unsigned missing = 0;
    for (size_t i = 0; i < count; i++) {
        missing += load_u32(&pieces[i].times, RELAXED) != 1;
    }
    return missing;
}

static inline void
thread_start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    if (pthread_create(thread, &attributes, body, argument) != 0) {
        perror("pthread_create");
        exit(EXIT_FAILURE);
    }
    pthread_attr_destroy(&attributes);
}

/* A small generator; each thread has its own. */
static inline uint64_t
random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static inline bool
long_form(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--long") == 0;
}

#endif
