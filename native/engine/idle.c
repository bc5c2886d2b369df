/* The idle set: parking, picking and the role of the searcher. The protocol and its invariants are in idle.h.
 *
 * The word and the bits carry no data. The fences of IDLE-2 order them against the queues, and a waker's token
 * (engine/park.h, PARK-4) publishes what the waker knew. But IDLE-5 is about both: a thread that sees a worker counted
 * must see its bit, and a thread that sees its bit gone must see the worker discounted. So every change of either has
 * RELEASE, and a waker reads with ACQUIRE. (With RELAXED a waker can loop forever over a bit that it does not see; the
 * explorer found that.)
 */
#include "engine/idle.h"

#include "law/rule.h"

#define IDLE_ONE (UINT64_C(1) << 32)
#define SEARCH_ONE UINT64_C(1)

/* The meaning of a parker's tokens here. */
#define TOKEN_CALL UINT32_C(1) /* left by idle_call */
#define TOKEN_PICK UINT32_C(2) /* left by a waker that cleared the bit: the worker gets the role of a searcher */

static uint32_t
bit_words(uint32_t workers)
{
    return (workers + 63) / 64;
}

bool
idle_init(IdleSet *set, uint32_t workers, IdlePending pending, void *context, const EngineAllocator *memory)
{
    if (workers == 0 || workers > IDLE_WORKERS_MAX) {
        return false;
    }
    size_t bits_bytes = bit_words(workers) * sizeof(atomic_u64);
    size_t parkers_bytes = workers * sizeof(Parker);
    atomic_u64 *bits = memory->allocate(memory->context, bits_bytes);
    if (bits == NULL) {
        return false;
    }
    Parker *parkers = memory->allocate(memory->context, parkers_bytes);
    if (parkers == NULL) {
        goto no_parkers;
    }
    uint32_t made = 0;
    while (made < workers && parker_init(&parkers[made])) {
        made++;
    }
    if (made < workers) {
        goto no_parker;
    }
    for (uint32_t i = 0; i < bit_words(workers); i++) {
        init_u64(&bits[i], 0);
    }
    init_u64(&set->word, 0);
    set->bits = bits;
    set->parkers = parkers;
    set->memory = memory;
    set->pending = pending;
    set->context = context;
    set->workers = workers;
    set->asymmetric = fence_asymmetric();
    return true;

no_parker:
    while (made > 0) {
        parker_destroy(&parkers[--made]);
    }
    memory->release(memory->context, parkers, parkers_bytes);
no_parkers:
    memory->release(memory->context, bits, bits_bytes);
    return false;
}

void
idle_destroy(IdleSet *set)
{
    LAW_RULE(load_u64(&set->word, RELAXED) == 0, "IDLE-4"); /* no worker sleeps or has a role */
    for (uint32_t i = 0; i < set->workers; i++) {
        parker_destroy(&set->parkers[i]);
    }
    set->memory->release(set->memory->context, set->parkers, set->workers * sizeof(Parker));
    set->memory->release(set->memory->context, set->bits, bit_words(set->workers) * sizeof(atomic_u64));
}

/* Clear the lowest bit that is seen: a few workers that run often keep their caches warm. Returns the worker of that
 * bit, or IDLE_NO_WORKER. */
static uint32_t
pick(IdleSet *set)
{
    for (uint32_t i = 0; i < bit_words(set->workers); i++) {
        uint64_t seen = load_u64(&set->bits[i], ACQUIRE);
        while (seen != 0) {
            uint64_t bit = seen & -seen;
            seen = and_u64(&set->bits[i], ~bit, ACQ_REL);
            if ((seen & bit) != 0) {
                return i * 64 + (uint32_t)__builtin_ctzll(bit);
            }
        }
    }
    return IDLE_NO_WORKER;
}

void
idle_wake_one(IdleSet *set)
{
    tries_begin();
    uint64_t word = load_u64(&set->word, RELAXED);
    while (idle_count(word) != 0 && idle_searching(word) == 0) {
        tries_again(word);
        if (!cas_u64(&set->word, &word, word + SEARCH_ONE, ACQ_REL)) { /* IDLE-4 */
            continue;
        }
        uint32_t worker = pick(set);
        if (worker != IDLE_NO_WORKER) {
            parker_wake(&set->parkers[worker], TOKEN_PICK);
            return;
        }
        /* All sleepers returned without this waker (IDLE-5). Other notifiers may have left the wake to this waker,
         * because they saw its role. Every worker that slept when they looked is counted in the word that this addition
         * returns. */
        word = add_u64(&set->word, -SEARCH_ONE, ACQ_REL) - SEARCH_ONE;
    }
}

bool
idle_search_begin(IdleSet *set)
{
    uint64_t word = load_u64(&set->word, RELAXED);
    if (2 * idle_searching(word) >= set->workers && idle_searching(word) != 0) {
        return false;
    }
    add_u64(&set->word, SEARCH_ONE, ACQ_REL);
    return true;
}

void
idle_search_end(IdleSet *set)
{
    uint64_t word = add_u64(&set->word, -SEARCH_ONE, ACQ_REL);
    LAW_RULE(idle_searching(word) != 0, "IDLE-4");
    if (idle_searching(word) == 1 && idle_count(word) != 0) { /* IDLE-3 */
        fence_heavy(set->asymmetric);
        if (set->pending(set->context, IDLE_NO_WORKER)) {
            idle_wake_one(set);
        }
    }
}

/* A worker that announced itself goes on, as a searcher or not, without having been picked. Returns whether it
 * searches: if a waker picked it just now, it does. */
static bool
withdraw(IdleSet *set, uint32_t worker, bool searching, uint32_t tokens)
{
    uint64_t bit = UINT64_C(1) << (worker % 64);
    add_u64(&set->word, (searching ? SEARCH_ONE : 0) - IDLE_ONE, ACQ_REL); /* before the bit is cleared (IDLE-5) */
    if ((and_u64(&set->bits[worker / 64], ~bit, ACQ_REL) & bit) != 0) {
        return searching;
    }
    while ((tokens & TOKEN_PICK) == 0) { /* IDLE-6: the waker is about to leave its token */
        tokens |= parker_sleep(&set->parkers[worker], PARK_FOREVER);
    }
    if (searching) {
        add_u64(&set->word, -SEARCH_ONE, ACQ_REL); /* one worker, one role */
    }
    return true;
}

IdleReason
idle_park(IdleSet *set, uint32_t worker, bool searching, int64_t deadline_ns)
{
    LAW_RULE(worker < set->workers, "IDLE-4");
    or_u64(&set->bits[worker / 64], UINT64_C(1) << (worker % 64), ACQ_REL); /* before it is counted (IDLE-5) */
    add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL);
    fence_heavy(set->asymmetric); /* the sleeper's fence of IDLE-2 */
    if (set->pending(set->context, worker)) {
        withdraw(set, worker, true, 0);
        return IDLE_SEARCH;
    }
    uint32_t tokens = parker_sleep(&set->parkers[worker], deadline_ns);
    if ((tokens & TOKEN_PICK) != 0) {
        add_u64(&set->word, -IDLE_ONE, ACQ_REL); /* the waker cleared the bit and handed over its role (IDLE-4) */
        return IDLE_SEARCH;
    }
    if (withdraw(set, worker, false, tokens)) {
        return IDLE_SEARCH;
    }
    return tokens != 0 ? IDLE_CALLED : IDLE_EXPIRED;
}

void
idle_call(IdleSet *set, uint32_t worker)
{
    LAW_RULE(worker < set->workers, "IDLE-4");
    parker_wake(&set->parkers[worker], TOKEN_CALL);
}
