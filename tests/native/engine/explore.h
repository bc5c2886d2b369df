/* The schedule explorer: runs a small concurrent program under every schedule, or under many random ones.
 *
 * The program is the engine's own source, built with BURSAR_EXPLORE. Each atomic access is a step, and before each step
 * the explorer chooses which thread goes next. Each load is also a choice of the value that it reads (weakmem.h).
 * Logical threads are coroutines on one real thread, so a run is a function of the choices and can be repeated.
 *
 * EXPLORE-1  explore_all visits every reachable state, or reports that it did not (`complete`)
 * EXPLORE-2  a state is the memory, and for each thread everything that it has read since its last explore_state,
 *     except in attempts that failed (`tries_again` in atomics.h). Two runs that meet in a state have the same futures,
 *     so the second one is abandoned there. That keeps the number of runs small
 * EXPLORE-3  a thread must be a function of what it reads: no clock, no randomness. Its own memory that survives
 *     explore_state must be part of the number that it passes; plain memory that several threads use must be hashed by
 *     `shared`
 * EXPLORE-4  memory comes from explore_memory, so an abandoned run frees nothing and loses nothing
 *
 * explore_random gives the threads random priorities and lowers one at a few random steps (PCT): it finds a bug that
 * needs d particular switches with a known probability per run. A failing run prints its seed, which repeats it.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/allocator.h"

typedef struct {
    const char *name;
    unsigned threads;               /* at most 4 */
    bool strong;                    /* loads read the newest value: all interleavings, but no weak memory */
    unsigned spurious;              /* how often in a run a sleeper may wake by its deadline, or without a cause */
    void (*setup)(void);            /* makes the shared state before each run; no thread runs */
    void (*thread)(unsigned index); /* the code of a thread */
    bool (*may_rest)(void);         /* all remaining threads sleep: whether that is correct. NULL: never */
    uint64_t (*shared)(void);       /* hash of the plain memory that threads pass to each other; NULL: there is none */
    void (*finish)(void);           /* the last checks; no thread runs */
} ExploreProgram;

typedef struct {
    uint64_t runs;
    uint64_t states;
    uint64_t cut;  /* runs that were stopped because they were too long; only random ones may be */
    bool complete; /* every state was visited */
    bool failed;
    char failure[200];
} ExploreResult;

ExploreResult explore_all(const ExploreProgram *program, uint64_t runs_max);
ExploreResult explore_random(const ExploreProgram *program, uint64_t seed, uint64_t runs, unsigned turns);

/* In a program: this must hold. If it does not, the run fails and ends. */
void explore_require(bool holds, const char *what);

/* In a thread: `state` is everything that its future depends on, besides the shared memory (EXPLORE-2). */
void explore_state(uint64_t state);

/* In a thread: let the explorer choose a number below `count`. */
unsigned explore_choose(unsigned count);

/* In a thread that waits in a loop for another one: under random priorities it gets a lower one. */
void explore_pause(void);

/* For the printed trace. */
void explore_name(const void *cell, const char *name);

extern const EngineAllocator explore_memory;

/* main() of an explorer test: `explore_main(argc, argv, test)` calls `test(long_form)`, which calls the two below.
 *
 *     --long             bigger sizes, more runs
 *     --seed N           random runs start from this seed (one run of it repeats a failure)
 *     --only NAME        only the programs with that in their name
 *     --expect-failure   the source has a planted fault: exit 0 only if something fails
 */
int explore_main(int argc, char **argv, void (*test)(bool long_form));
void explore_check_all(const ExploreProgram *program);
void explore_check_random(const ExploreProgram *program, uint64_t runs, unsigned turns);

#endif
