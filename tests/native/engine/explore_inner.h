/* What the parts of the schedule explorer share: explore.c runs the threads, explore_access.c performs their accesses.
 */
#ifndef EXPLORE_INNER_H
#define EXPLORE_INNER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "explore.h"
#include "weakmem.h"

enum { NO_THREAD = -1, STACK_BYTES = 1 << 17 /* of a thread */ };

typedef enum { RUNS, SLEEPS, DONE } Activity;

typedef struct {
    jmp_buf fresh; /* before its first step */
    jmp_buf here;  /* where it was left */
    char *stack;
    uint64_t history; /* hash of everything that it has read since its last explore_state */
    uint64_t before;  /* the same when it came to the loop that it is in */
    Activity activity;
    bool started;
    bool timed;
    bool woken;
    const void *cell; /* the cell that it sleeps on */
    uint64_t priority;
} Thread;

/* The present run. */
typedef struct {
    const ExploreProgram *program;
    Thread threads[WEAK_THREADS_MAX];
    int current; /* NO_THREAD: setup or checks */
    unsigned steps;
    unsigned spurious_left;
    bool randomly;
    bool tracing;
} Run;

extern Run run;

/* Called before each step of a thread: other threads may go first. */
void explore_step(void);

/* Choose one of `count`: the next to try, or a random one. */
unsigned explore_pick(unsigned count);

/* A random number, from the seed of the run. */
uint64_t explore_draw(void);

#endif
