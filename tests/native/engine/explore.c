/* The schedule explorer: choices and threads. The contract is in explore.h; explore_access.c has the accesses. */
#define _GNU_SOURCE /* makecontext, _setjmp */

#include "explore_inner.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    STEPS_MAX = 3000, /* of one run: a longer run is in an endless loop */
    CHOICES_MAX = 20000,
    ARENA_BYTES = 1 << 17,
    TURNS_MAX = 16,
    TURNED = 1 << 20, /* priorities: more than twice this at first, from this on after a switch, less after a pause */
};

typedef struct {
    uint16_t chosen;
    uint16_t count;
} Choice;

typedef enum { GOES_ON, FINISHED, RESTS, KNOWN, CUT, FAILED } Outcome;

Run run = {.current = NO_THREAD};
static jmp_buf home;
static Outcome outcome;
static char failure[200];
static alignas(128) char arena[ARENA_BYTES];
static size_t arena_used;

/* Exhaustive: the choices of this run. The first `repeated` ones are those of the run before, except for the last of
 * them. */
static Choice choices[CHOICES_MAX];
static unsigned chosen, repeated;

/* Random. */
static uint64_t random_state;
static unsigned turn_steps[TURNS_MAX], turns;
static uint64_t lowest;

uint64_t
explore_draw(void)
{
    return weak_mix(random_state += UINT64_C(0x9E3779B97F4A7C15));
}

/* ---- states that were seen: a hash table of 64-bit hashes that grows */

static uint64_t *seen;
static uint64_t seen_capacity, seen_count;

static bool
seen_add(uint64_t hash)
{
    hash += hash == 0;
    if (2 * seen_count >= seen_capacity) {
        uint64_t *old = seen, old_capacity = seen_capacity;
        seen_capacity = old_capacity == 0 ? 1 << 16 : 2 * old_capacity;
        seen = calloc(seen_capacity, sizeof *seen);
        if (seen == NULL) {
            fprintf(stderr, "explore: no memory for %llu states\n", (unsigned long long)seen_count);
            abort();
        }
        seen_count = 0;
        for (uint64_t i = 0; i < old_capacity; i++) {
            if (old[i] != 0) {
                seen_add(old[i]);
            }
        }
        free(old);
    }
    uint64_t i = hash & (seen_capacity - 1);
    while (seen[i] != 0 && seen[i] != hash) {
        i = (i + 1) & (seen_capacity - 1);
    }
    if (seen[i] == hash) {
        return false;
    }
    seen[i] = hash;
    seen_count++;
    return true;
}

static void
seen_clear(void)
{
    free(seen);
    seen = NULL;
    seen_capacity = seen_count = 0;
}

/* ---- choices */

unsigned
explore_pick(unsigned count)
{
    if (count <= 1) {
        return 0;
    }
    if (run.randomly) {
        return (unsigned)(explore_draw() % count);
    }
    if (chosen == CHOICES_MAX) {
        fprintf(stderr, "explore: more than %d choices in a run\n", CHOICES_MAX);
        abort();
    }
    if (chosen >= repeated) {
        choices[chosen] = (Choice){0, (uint16_t)count};
    }
    return choices[chosen++].chosen;
}

/* The choices of the next run: the last choice that has an alternative takes it. Returns false when there is none. */
static bool
next_choices(void)
{
    while (chosen > 0 && choices[chosen - 1].chosen + 1 == choices[chosen - 1].count) {
        chosen--;
    }
    if (chosen == 0) {
        return false;
    }
    choices[chosen - 1].chosen++;
    repeated = chosen;
    return true;
}

static uint64_t
state_hash(void)
{
    unsigned live = 0;
    uint64_t hash = run.spurious_left + (run.program->shared == NULL ? 0 : weak_mix(run.program->shared()));
    for (unsigned t = 0; t < run.program->threads; t++) {
        live |= (unsigned)(run.threads[t].activity != DONE) << t;
        hash = weak_mix(hash ^ run.threads[t].history) + (uint64_t)run.threads[t].activity * 8 +
               run.threads[t].started * 4u + run.threads[t].timed * 2u + run.threads[t].woken;
    }
    return weak_mix(hash ^ (run.program->strong ? weak_hash_newest() : weak_hash(live)));
}

/* ---- which thread goes next */

static int
by_priority(const int *able, unsigned count)
{
    int best = able[0];
    for (unsigned i = 1; i < count; i++) {
        best = run.threads[able[i]].priority > run.threads[best].priority ? able[i] : best;
    }
    for (unsigned i = 0; i < turns; i++) {
        if (turn_steps[i] == run.steps) {
            run.threads[best].priority = TURNED + i; /* below every thread that has not had its switch */
        }
    }
    return best;
}

/* The thread that takes the next step; NO_THREAD if the run is over, and then `outcome` says how. */
static int
next_thread(void)
{
    int able[WEAK_THREADS_MAX];
    unsigned count = 0, running = 0, asleep = 0;
    if (outcome != GOES_ON) {
        return NO_THREAD;
    }
    if (++run.steps > STEPS_MAX) {
        outcome = CUT;
        return NO_THREAD;
    }
    if (run.current != NO_THREAD && run.threads[run.current].activity == RUNS) {
        able[count++] = run.current; /* first: most runs then have few switches */
        running++;
    }
    for (int t = 0; t < (int)run.program->threads; t++) {
        bool counted = t == run.current && run.threads[t].activity == RUNS;
        if (!counted && run.threads[t].activity == RUNS) {
            able[count++] = t;
            running++;
        }
        asleep += run.threads[t].activity == SLEEPS;
    }
    for (int t = 0; t < (int)run.program->threads && run.spurious_left > 0 && running > 0; t++) {
        if (run.threads[t].activity == SLEEPS && (!run.randomly || explore_draw() % 8 == 0)) {
            able[count++] = t;
        }
    }
    if (running == 0) {
        outcome = asleep == 0 ? FINISHED : RESTS;
        return NO_THREAD;
    }
    if (run.randomly) {
        return by_priority(able, count);
    }
    if (chosen >= repeated && !seen_add(state_hash())) {
        outcome = KNOWN;
        return NO_THREAD;
    }
    return able[explore_pick(count)];
}

_Noreturn static void
go(int next)
{
    run.current = next;
    if (next == NO_THREAD) {
        _longjmp(home, 1);
    }
    if (!run.threads[next].started) {
        run.threads[next].started = true;
        _longjmp(run.threads[next].fresh, 1);
    }
    _longjmp(run.threads[next].here, 1);
}

void
explore_step(void)
{
    int next = next_thread();
    if (next != run.current && _setjmp(run.threads[run.current].here) == 0) {
        go(next);
    }
}

static void
entry(int index)
{
    if (_setjmp(run.threads[index].fresh) == 0) {
        _longjmp(home, 1);
    }
    run.program->thread((unsigned)run.current);
    run.threads[run.current].activity = DONE;
    go(next_thread());
}

/* Make the stacks, once. */
static void
make_threads(void)
{
    static volatile int t;
    for (t = 0; t < WEAK_THREADS_MAX; t++) {
        ucontext_t context;
        if (run.threads[t].stack != NULL) {
            continue;
        }
        run.threads[t].stack = malloc(STACK_BYTES);
        if (run.threads[t].stack == NULL || getcontext(&context) != 0) {
            fprintf(stderr, "explore: no memory for stacks\n");
            abort();
        }
        context.uc_stack.ss_sp = run.threads[t].stack;
        context.uc_stack.ss_size = STACK_BYTES;
        context.uc_link = NULL;
        makecontext(&context, (void (*)(void))entry, 1, t);
        if (_setjmp(home) == 0) {
            setcontext(&context);
        }
    }
}

static void
run_once(void)
{
    memset(arena, 0, arena_used);
    arena_used = 0;
    weak_reset();
    run.current = NO_THREAD;
    outcome = GOES_ON;
    run.steps = chosen = 0;
    run.spurious_left = run.program->spurious;
    for (unsigned t = 0; t < WEAK_THREADS_MAX; t++) {
        run.threads[t].history = t;
        run.threads[t].activity = t < run.program->threads ? RUNS : DONE;
        run.threads[t].started = run.threads[t].timed = run.threads[t].woken = false;
        run.threads[t].priority = 2 * TURNED + (run.randomly ? explore_draw() >> 8 : 0);
    }
    lowest = TURNED;
    run.program->setup();
    weak_start(run.program->threads);
    if (_setjmp(home) == 0) {
        go(next_thread());
    }
    run.current = NO_THREAD;
    if (outcome == RESTS && (run.program->may_rest == NULL || !run.program->may_rest())) {
        outcome = FAILED;
        snprintf(failure, sizeof failure, "all threads sleep, and there is work left: a wake-up was lost");
    }
    if ((outcome == FINISHED || outcome == RESTS) && _setjmp(home) == 0) {
        run.program->finish();
    }
}

/* ---- the two ways to explore */

static ExploreResult
result_of(uint64_t runs, uint64_t cut, bool complete)
{
    ExploreResult result = {.runs = runs, .states = seen_count, .cut = cut, .complete = complete};
    result.failed = outcome == FAILED;
    memcpy(result.failure, failure, sizeof failure);
    return result;
}

ExploreResult
explore_all(const ExploreProgram *explored, uint64_t runs_max)
{
    uint64_t runs = 0, cut = 0;
    bool more = true;
    run.program = explored;
    run.randomly = false;
    repeated = 0;
    seen_clear();
    weak_forget();
    make_threads();
    while (more && runs < runs_max) {
        run_once();
        runs++;
        cut += outcome == CUT;
        if (outcome == FAILED) {
            break;
        }
        more = next_choices();
    }
    ExploreResult result = result_of(runs, cut, !more && cut == 0);
    if (result.failed && getenv("EXPLORE_TRACE") != NULL) {
        repeated = chosen;
        run.tracing = true;
        run_once();
        run.tracing = false;
    }
    seen_clear();
    return result;
}

static void
random_run(uint64_t seed, unsigned length, unsigned wanted_turns)
{
    random_state = seed;
    turns = wanted_turns < TURNS_MAX ? wanted_turns : TURNS_MAX;
    for (unsigned i = 0; i < turns; i++) {
        turn_steps[i] = 1 + (unsigned)(explore_draw() % length);
    }
    run_once();
}

ExploreResult
explore_random(const ExploreProgram *explored, uint64_t seed, uint64_t runs, unsigned wanted_turns)
{
    uint64_t cut = 0, i = 0;
    unsigned length = 200;
    run.program = explored;
    run.randomly = true;
    weak_forget();
    make_threads();
    for (; i < runs; i++) {
        random_run(seed + i, length, wanted_turns);
        cut += outcome == CUT;
        if (outcome == FAILED) {
            size_t used = strlen(failure);
            snprintf(failure + used, sizeof failure - used, " (--seed %llu)", (unsigned long long)(seed + i));
            break;
        }
    }
    ExploreResult result = result_of(i, cut, false);
    if (result.failed && getenv("EXPLORE_TRACE") != NULL) {
        run.tracing = true;
        random_run(seed + i, length, wanted_turns);
        run.tracing = false;
    }
    return result;
}

/* ---- what programs call */

void
explore_require(bool holds, const char *what)
{
    if (!holds) {
        outcome = FAILED;
        snprintf(failure, sizeof failure, "%s", what);
        go(NO_THREAD);
    }
}

void
explore_state(uint64_t state)
{
    run.threads[run.current].history = weak_mix(state ^ UINT64_C(0x5851F42D4C957F2D));
}

unsigned
explore_choose(unsigned count)
{
    unsigned answer = explore_pick(count);
    run.threads[run.current].history = weak_mix(run.threads[run.current].history + answer + 1);
    return answer;
}

void
explore_pause(void)
{
    if (run.randomly) {
        run.threads[run.current].priority = --lowest; /* below every other thread */
    }
}

static void *
arena_allocate(void *context, size_t bytes)
{
    (void)context;
    size_t rounded = (bytes + 127) / 128 * 128;
    if (rounded > sizeof arena - arena_used) {
        fprintf(stderr, "explore: the arena is full; raise ARENA_BYTES\n");
        abort();
    }
    void *block = arena + arena_used;
    arena_used += rounded;
    return block;
}

static void
arena_release(void *context, void *block, size_t bytes)
{
    (void)context;
    (void)block;
    (void)bytes;
}

const EngineAllocator explore_memory = {arena_allocate, arena_release, NULL};
