/* The schedule explorer: runs a small concurrent program under every schedule, or under many random ones.
 *
 * The program is the engine's own source, built with BURSAR_EXPLORE: each atomic access is a step, before which the
 * explorer chooses who goes next, and each load a choice of what it reads (weakmem.h). Logical threads are coroutines on one
 * real thread, so a run is a function of the choices and can be repeated.
 *
 * EXPLORE-1  explore_all visits every reachable state, or says that it did not (`complete`)
 * EXPLORE-2  a state is the memory, and for each thread what it has read since it last called explore_state, less what
 *     it read in tries that came to nothing (`tries_again` in atomics.h); two runs that meet in a state have the same
 *     futures, so the second one is given up there. That is what makes "all" small
 * EXPLORE-3  a thread must be a function of what it reads: no clock, no randomness; memory of its own that survives
 *     explore_state is part of the number handed to it, plain memory that several threads use is hashed by `shared`
 * EXPLORE-4  memory comes from explore_memory; a run that is given up gives nothing back and loses nothing
 *
 * explore_random gives the threads random priorities and lowers one at a few random steps (PCT): a bug that needs d
 * particular turns is found with a known probability per run. The seed of the run that fails is printed, and repeats it.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/memory.h"

typedef struct {
    const char *name;
    unsigned threads;               /* at most 4 */
    bool strong;                    /* loads read the newest value: all interleavings, but no weak memory */
    unsigned spurious;              /* how often in a run a sleeper may wake by its deadline, or without a cause */
    void (*setup)(void);            /* makes the shared state, alone, before each run */
    void (*thread)(unsigned index); /* what a thread does */
    bool (*may_rest)(void);         /* all threads that are left sleep: is that right? NULL: never */
    uint64_t (*shared)(void);       /* hash of the plain memory that threads hand to each other; NULL: there is none */
    void (*finish)(void);           /* the last checks, alone */
} ExploreProgram;

typedef struct {
    uint64_t runs;
    uint64_t states;
    uint64_t cut;  /* runs that were stopped because they were too long; only random ones may be */
    bool complete; /* nothing was left out */
    bool failed;
    char failure[200];
} ExploreResult;

ExploreResult explore_all(const ExploreProgram *program, uint64_t runs_max);
ExploreResult explore_random(const ExploreProgram *program, uint64_t seed, uint64_t runs, unsigned turns);

/* In a program: this must hold. Ends the run as failed if it does not. */
void explore_require(bool holds, const char *what);

/* In a thread: `state` says all that its future depends on, besides the shared memory (EXPLORE-2). */
void explore_state(uint64_t state);

/* In a thread: let the explorer choose a number below `count`. */
unsigned explore_choose(unsigned count);

/* In a thread that waits in a loop for another one: under random priorities it steps back. */
void explore_pause(void);

/* For the printed trace. */
void explore_name(const void *cell, const char *name);

extern const EngineMemory explore_memory;

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
