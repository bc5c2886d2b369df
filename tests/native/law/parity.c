/* The law in C as a library of plain functions, for tests/native/test_law_parity.py.
 *
 * An inline function has no address to call, so each has a function here that only calls it. Pools and timers are in
 * arrays and are named by number, so that Python holds no pointer into C.
 */

#include <stdlib.h>

#include "law/admission/aging.h"
#include "law/admission/ticket.h"
#include "law/cancel.h"
#include "law/chain.h"
#include "law/decide.h"
#include "law/heap.h"
#include "law/lanes.h"
#include "law/nursery.h"
#include "law/pool.h"
#include "law/state.h"
#include "law/steal.h"
#include "law/wake.h"

#if defined(__GNUC__)
#  define EXPORT extern __attribute__((visibility("default")))
#else
#  define EXPORT extern
#endif

/* ---- chain */

EXPORT uint64_t
parity_mix64(uint64_t x)
{
    return law_mix64(x);
}

EXPORT uint64_t
parity_seed_chain(uint64_t seed, uint64_t workers)
{
    return law_seed_chain(seed, workers);
}

EXPORT uint64_t
parity_link(uint64_t chain, uint64_t task_id, uint64_t nursery_id, uint64_t lane, uint64_t worker,
            uint64_t cancel_streak, uint64_t cancel_limit, uint64_t generation)
{
    return law_link(chain, task_id, nursery_id, lane, worker, cancel_streak, cancel_limit, generation);
}

EXPORT uint64_t
parity_stream_init(uint64_t seed, int64_t purpose)
{
    return law_random_init(seed, purpose).state;
}

EXPORT uint64_t
parity_stream_next(uint64_t *state)
{
    LawRandomStream stream = {*state};
    uint64_t drawn = law_random_next(&stream);
    *state = stream.state;
    return drawn;
}

EXPORT uint64_t
parity_stream_below(uint64_t *state, uint64_t n)
{
    LawRandomStream stream = {*state};
    uint64_t drawn = law_random_below(&stream, n);
    *state = stream.state;
    return drawn;
}

EXPORT uint64_t
parity_high_product_portable(uint64_t a, uint64_t b)
{
    return law_high_product_portable(a, b);
}

/* ---- state, wake, decide, nursery, cancel */

EXPORT bool
parity_may_move(unsigned from, unsigned to)
{
    return law_may_move(from, to);
}

EXPORT bool
parity_may_end(unsigned state, unsigned outcome)
{
    return law_may_end(state, outcome);
}

EXPORT int
parity_severer(int a, int b)
{
    return (int)law_severer((LawOutcome)a, (LawOutcome)b);
}

EXPORT int
parity_notify(uint8_t *wake, uint64_t task_generation, uint64_t generation, bool waits)
{
    return (int)law_notify(wake, task_generation, generation, waits);
}

EXPORT void
parity_begin_poll(uint8_t *wake, uint64_t *generation)
{
    law_begin_poll(wake, generation);
}

EXPORT bool
parity_end_poll(uint8_t *wake)
{
    return law_end_poll(wake);
}

EXPORT uint32_t
parity_cancel_limit(bool draining)
{
    return law_cancel_limit(draining);
}

EXPORT uint32_t
parity_wait_max(uint32_t limit)
{
    return law_wait_max(limit);
}

EXPORT int
parity_decide(bool cancel, bool due, bool ready, bool stealable, uint32_t cancel_streak, uint32_t limit,
              uint32_t timed_streak)
{
    return (int)law_decide(cancel, due, ready, stealable, cancel_streak, limit, timed_streak);
}

EXPORT void
parity_streaks_after(int lane, uint32_t *cancel_streak, uint32_t *timed_streak)
{
    law_streaks_after((LawLane)lane, cancel_streak, timed_streak);
}

EXPORT bool
parity_effective_priority(int64_t priority, int64_t wait_ns, int64_t interval_ns, int64_t boost, int64_t *effective)
{
    return law_effective_priority(priority, wait_ns, interval_ns, boost, effective);
}

EXPORT bool
parity_ticket_may_move(unsigned from, unsigned to)
{
    return law_ticket_may_move(from, to);
}

EXPORT bool
parity_nursery_may_move(unsigned from, unsigned to)
{
    return law_nursery_may_move(from, to);
}

EXPORT bool
parity_nursery_terminal(unsigned state)
{
    return law_nursery_terminal(state);
}

EXPORT bool
parity_nursery_notes(int outcome, bool supervised)
{
    return law_nursery_notes((LawOutcome)outcome, supervised);
}

EXPORT int
parity_nursery_result(int first_failure, bool cancelled)
{
    return (int)law_nursery_result((LawOutcome)first_failure, cancelled);
}

EXPORT void
parity_phase_move(uint8_t *phase, int to, int32_t *requested, int32_t *draining)
{
    law_phase_move(phase, (LawCancelPhase)to, requested, draining);
}

EXPORT const char *
parity_cancel_name(unsigned kind)
{
    return law_cancel_name(kind);
}

EXPORT int
parity_kind_for_children(int kind, bool is_target)
{
    return (int)law_kind_for_children((LawCancelKind)kind, is_target);
}

EXPORT int
parity_take_ready(uint64_t ready_turns, bool injector, bool pinned, bool stealable, uint64_t pinned_stamp,
                  uint64_t stealable_stamp)
{
    return (int)law_take_ready(ready_turns, injector, pinned, stealable, pinned_stamp, stealable_stamp);
}

/* ---- steal */

static size_t
load_of(void *context, uint32_t worker)
{
    const uint64_t *loads = context;
    return (size_t)loads[worker];
}

/* Choose up to `attempts` victims. Returns how many there were. */
EXPORT uint32_t
parity_victims(int policy, uint32_t thief, uint32_t workers, uint64_t *stream_state, uint32_t *next_victim,
               uint64_t *loads, uint32_t attempts, uint32_t *named)
{
    LawRandomStream stream = {*stream_state};
    LawVictims victims = law_victims((LawStealPolicy)policy, thief, workers, &stream, next_victim, load_of, loads);
    uint32_t n = 0;
    while (n < attempts && law_next_victim(&victims, &named[n])) {
        n += 1;
    }
    *stream_state = stream.state;
    return n;
}

/* ---- budget: a pool is a number, five of them are an array of numbers */

EXPORT LawPool *
parity_bank_new(size_t pools)
{
    return calloc(pools, sizeof(LawPool));
}

EXPORT void
parity_bank_free(LawPool *bank)
{
    free(bank);
}

static LawPools
of_bank(LawPool *bank, const uint32_t *numbers)
{
    LawPools pools;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        pools.of[c] = &bank[numbers[c]];
    }
    return pools;
}

/* The five numbers of one pool: left, granted, minted, spent, lent. */
EXPORT void
parity_pool(const LawPool *bank, uint32_t number, int64_t *left, uint64_t counts[4])
{
    const LawPool *pool = &bank[number];
    *left = pool->left;
    counts[0] = pool->granted;
    counts[1] = pool->minted;
    counts[2] = pool->spent;
    counts[3] = pool->lent;
}

/* Make a root in the pools from `first` on. */
EXPORT void
parity_root(LawPool *bank, uint32_t first, const LawBudget *budget)
{
    law_root_pools(budget, &bank[first]);
}

/* Make the pools of a child, its own pools from `first` on, and say which they are. Returns how many are its own. */
EXPORT int
parity_derive(LawPool *bank, const uint32_t *numbers, const LawBudget *budget, uint32_t first, uint32_t *derived)
{
    LawPools pools = of_bank(bank, numbers), made = law_derive(&pools, budget, &bank[first]);
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        derived[c] = (uint32_t)(made.of[c] - bank);
    }
    return law_budget_stated(budget);
}

EXPORT void
parity_affordable(LawPool *bank, const uint32_t *numbers, const LawBudget *wish, LawBudget *can)
{
    LawPools pools = of_bank(bank, numbers);
    *can = law_affordable(&pools, wish);
}

EXPORT void
parity_close(LawPool *bank, const uint32_t *numbers, const uint32_t *parents)
{
    LawPools pools = of_bank(bank, numbers), above = of_bank(bank, parents);
    law_close_pools(&pools, &above);
}

/* Returns what `law_pay` returns, or -2 for an invalid cost. */
EXPORT int
parity_pay(LawPool *bank, const uint32_t *numbers, unsigned n, const unsigned *components, const int64_t *amounts)
{
    LawPools pools = of_bank(bank, numbers);
    LawCost cost = {.n = 0};
    for (unsigned i = 0; i < n; i++) {
        if (!law_cost_add(&cost, components[i], amounts[i])) {
            return -2;
        }
    }
    return law_pay(&pools, &cost);
}

EXPORT int
parity_top_up(LawPool *bank, const uint32_t *numbers, const uint32_t *sources, const LawBudget *amounts)
{
    LawPools pools = of_bank(bank, numbers), above = of_bank(bank, sources);
    return law_top_up(&pools, &above, amounts);
}

EXPORT void
parity_mint(LawPool *bank, uint32_t number, int64_t amount)
{
    law_pool_mint(&bank[number], amount);
}

EXPORT void
parity_clamp(const LawBudget *a, const LawBudget *b, LawBudget *least)
{
    *least = law_budget_clamp(a, b);
}

EXPORT bool
parity_within(const LawBudget *a, const LawBudget *b)
{
    return law_budget_within(a, b);
}

/* ---- timers: an entry is a number */

typedef struct {
    LawHeap heap;
    LawHeapEntry entries[];
} Clock;

static void *
reallocate(void *context, void *block, size_t bytes)
{
    (void)context;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

EXPORT Clock *
parity_clock_new(size_t entries)
{
    return calloc(1, sizeof(Clock) + entries * sizeof(LawHeapEntry));
}

EXPORT void
parity_clock_free(Clock *clock)
{
    law_heap_free(&clock->heap, reallocate, NULL);
    free(clock);
}

EXPORT bool
parity_arm(Clock *clock, size_t entry, int64_t deadline_ns, uint64_t id)
{
    if (!law_heap_reserve(&clock->heap, reallocate, NULL)) {
        return false;
    }
    law_heap_push(&clock->heap, &clock->entries[entry], deadline_ns, id);
    return true;
}

EXPORT void
parity_disarm(Clock *clock, size_t entry)
{
    if (law_heap_has(&clock->heap, &clock->entries[entry])) {
        law_heap_remove(&clock->heap, &clock->entries[entry]);
    }
}

EXPORT size_t
parity_armed(const Clock *clock)
{
    return clock->heap.count;
}

/* The entry that comes out, or -1. */
EXPORT int64_t
parity_pop_due(Clock *clock, int64_t now_ns)
{
    LawHeapEntry *due = law_heap_due(&clock->heap, now_ns);
    if (due == NULL) {
        return -1;
    }
    law_heap_remove(&clock->heap, due);
    return due - clock->entries;
}

/* The entry that is due first, or -1. */
EXPORT int64_t
parity_next(const Clock *clock)
{
    const LawHeapSlot *first = law_heap_first(&clock->heap);
    return first == NULL ? -1 : first->entry - clock->entries;
}
