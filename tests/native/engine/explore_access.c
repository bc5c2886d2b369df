/* The accesses of atomics.h and the futex of park.c, as the explorer performs them; and the trace of these accesses.
 *
 * Each access is a step. A load may read an old value, so it is a choice too.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "explore_inner.h"

/* ---- names and traces */

enum { NAMES_MAX = 64 };
static struct {
    const void *cell;
    char name[24];
} names[NAMES_MAX];

void
explore_name(const void *cell, const char *name)
{
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        if (names[i].cell == cell || names[i].cell == NULL) {
            names[i].cell = cell;
            snprintf(names[i].name, sizeof names[i].name, "%s", name);
            return;
        }
    }
}

static void
trace(const char *what, const void *cell, uint64_t value, uint64_t other)
{
    if (!run.tracing || run.current == NO_THREAD) {
        return;
    }
    const char *name = "";
    char address[24] = "";
    for (unsigned i = 0; cell != NULL && i < NAMES_MAX; i++) {
        if (names[i].cell == cell) {
            name = names[i].name;
        }
    }
    if (cell != NULL && *name == 0) {
        snprintf(address, sizeof address, "%p", cell);
        name = address;
    }
    fprintf(stderr, "%5u  thread %d  %-6s %-20s %#llx %#llx\n", run.steps, run.current, what, name,
            (unsigned long long)value, (unsigned long long)other);
}

/* ---- the accesses of atomics.h */

static void
note(uint64_t value)
{
    if (run.current != NO_THREAD) {
        run.threads[run.current].history =
            weak_mix(run.threads[run.current].history + UINT64_C(0x9E3779B97F4A7C15) + value);
    }
}

static unsigned
self(void)
{
    return run.current == NO_THREAD ? WEAK_ALONE : (unsigned)run.current;
}

/* Whether there can be a cell at this address: cells are aligned, and in static memory (explore_memory's included) or
 * on a thread's stack. */
static bool
is_cell(const void *address)
{
    extern const char __data_start[], _end[]; /* defined by the linker: where static memory begins and ends */
    uintptr_t at = (uintptr_t)address;
    bool found = at >= (uintptr_t)__data_start && at < (uintptr_t)_end;
    for (unsigned t = 0; t < WEAK_THREADS_MAX; t++) {
        found |= at - (uintptr_t)run.threads[t].stack < STACK_BYTES;
    }
    return found && at % sizeof(uint64_t) == 0;
}

/* The cell of an access, after other threads had their chance to go first. An address that is no cell comes from a
 * record that is gone. */
static unsigned
reach(const void *cell)
{
    if (run.current != NO_THREAD) {
        explore_step();
    }
    explore_require(is_cell(cell), "an access to what is no cell");
    return weak_cell(cell, *(const uint64_t *)cell);
}

static bool
acquires(memory_order order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel;
}

static bool
releases(memory_order order)
{
    return order == memory_order_release || order == memory_order_acq_rel;
}

uint64_t explore_load(const void *address, memory_order order);
void explore_store(void *address, uint64_t value, memory_order order);
uint64_t explore_swap(void *address, uint64_t value, memory_order order);
bool explore_cas(void *address, uint64_t *expected, uint64_t value, memory_order order);
uint64_t explore_add(void *address, uint64_t value, memory_order order);
uint64_t explore_or(void *address, uint64_t value, memory_order order);
uint64_t explore_and(void *address, uint64_t value, memory_order order);
void explore_init(void *address, uint64_t value);
void explore_fence(void);
void explore_fence_all(void);
void explore_loop(void);
void explore_again(uint64_t state);
bool explore_wait(const void *address, uint64_t expected, bool timed);
void explore_wake(const void *address);

void
explore_init(void *address, uint64_t value)
{
    *(uint64_t *)address = value;
    weak_init(weak_cell(address, value), value);
}

uint64_t
explore_load(const void *address, memory_order order)
{
    unsigned cell = reach(address);
    unsigned readable = run.program->strong ? 1 : weak_readable(self(), cell);
    unsigned age = run.randomly && explore_draw() % 4 != 0
                       ? 0
                       : explore_pick(readable); /* random runs read the newest value more often */
    uint64_t value = weak_load(self(), cell, age, acquires(order));
    note(value);
    trace("load", address, value, age);
    return value;
}

void
explore_store(void *address, uint64_t value, memory_order order)
{
    weak_store(self(), reach(address), value, releases(order));
    note(0);
    trace("store", address, value, 0);
}

static uint64_t
change(void *address, WeakChange kind, uint64_t operand, memory_order order)
{
    uint64_t old = weak_change(self(), reach(address), kind, operand, acquires(order), releases(order));
    note(old);
    trace("change", address, operand, old);
    return old;
}

uint64_t
explore_swap(void *address, uint64_t value, memory_order order)
{
    return change(address, WEAK_SWAP, value, order);
}

uint64_t
explore_add(void *address, uint64_t value, memory_order order)
{
    return change(address, WEAK_ADD, value, order);
}

uint64_t
explore_or(void *address, uint64_t value, memory_order order)
{
    return change(address, WEAK_OR, value, order);
}

uint64_t
explore_and(void *address, uint64_t value, memory_order order)
{
    return change(address, WEAK_AND, value, order);
}

bool
explore_cas(void *address, uint64_t *expected, uint64_t value, memory_order order)
{
    unsigned cell = reach(address);
    bool done = weak_newest(cell) == *expected;
    if (done) {
        weak_change(self(), cell, WEAK_SWAP, value, acquires(order), releases(order));
    } else {
        *expected = weak_load(self(), cell, 0, false);
    }
    note(*expected);
    trace(done ? "cas" : "cas!", address, value, *expected);
    return done;
}

void
explore_fence(void)
{
    if (run.current != NO_THREAD) {
        explore_step();
        weak_fence(self());
        note(0);
        trace("fence", NULL, 0, 0);
    }
}

void
explore_fence_all(void)
{
    if (run.current != NO_THREAD) {
        explore_step();
        weak_fence_all(run.program->threads);
        note(0);
        trace("FENCE", NULL, 0, 0);
    }
}

void
explore_loop(void)
{
    if (run.current != NO_THREAD) {
        run.threads[run.current].before = run.threads[run.current].history;
    }
}

void
explore_again(uint64_t state)
{
    if (run.current != NO_THREAD) {
        run.threads[run.current].history = run.threads[run.current].before;
        note(state);
    }
}

bool
explore_wait(const void *address, uint64_t expected, bool timed)
{
    unsigned cell = reach(address);
    Thread *sleeper = &run.threads[run.current];
    bool waited = true;
    if (weak_newest(cell) == expected) { /* as in the kernel, check and sleep are one step */
        trace("sleep", address, expected, timed);
        sleeper->activity = SLEEPS;
        sleeper->timed = timed;
        sleeper->woken = false;
        sleeper->cell = address;
        explore_step();
        if (!sleeper->woken) {
            waited = !timed;
            run.spurious_left--;
        }
        sleeper->activity = RUNS;
        sleeper->timed = sleeper->woken = false;
    }
    weak_load(
        self(), cell, 0,
        false); /* the kernel has read the cell for this thread, so the thread must not read an older value later */
    note((uint64_t)waited);
    trace("awake", address, waited, 0);
    return waited;
}

void
explore_wake(const void *address)
{
    explore_step();
    for (unsigned t = 0; t < run.program->threads; t++) {
        if (run.threads[t].activity == SLEEPS && run.threads[t].cell == address) {
            run.threads[t].activity = RUNS;
            run.threads[t].woken = true;
            break;
        }
    }
    note(0);
    trace("wake", address, 0, 0);
}
