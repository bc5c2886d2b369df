/* Stealing: which workers an idle worker tries to take a task from. Mirrors src/bursar/law/steal.py.
 *
 * A thief makes at most min(N−1, STEAL_ATTEMPTS_MAX) attempts, never on itself. It takes the oldest stealable task of
 * its victim. Pinned, timed and cancelled tasks stay where they are. The policy chooses the victims:
 *
 *     random        draws among the other workers, from the thief's own seeded stream
 *     round_robin   the next worker after the one that the thief tried last
 *     least_loaded  the worker with the most stealable tasks first (ties: lower id): the thief has the least load
 *
 * Victims are chosen one at a time: an attempt that is not made costs no random number. There are few attempts, so the
 * busiest workers fit into the iterator, and nothing is allocated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/chain.h"
#include "law/generated/enums.h"
#include "law/generated/limits.h"

/* How many stealable tasks a worker has. */
typedef size_t (*LawLoad)(void *context, uint32_t worker);

/* One search for work. */
typedef struct {
    LawRandomStream *stream; /* of the thief: random only */
    uint32_t *next_victim;   /* of the thief: the worker that it tried last; round robin only */
    uint32_t thief;
    uint32_t workers;
    uint32_t tried;
    uint8_t policy;
    uint32_t busiest[LAW_STEAL_ATTEMPTS_MAX]; /* least loaded only */
} LawVictims;

static inline uint32_t
law_attempts_max(uint32_t workers)
{
    uint32_t others = workers == 0 ? 0 : workers - 1;
    return others < LAW_STEAL_ATTEMPTS_MAX ? others : LAW_STEAL_ATTEMPTS_MAX;
}

/* Fill in the busiest workers except the thief, most loaded first, ties by lower id: one pass, and an insertion into a
 * list of at most four. Workers come in the order of their ids, so an equal load never overtakes. */
static inline void
law_find_busiest(LawVictims *victims, LawLoad load, void *context)
{
    size_t loads[LAW_STEAL_ATTEMPTS_MAX];
    uint32_t most = law_attempts_max(victims->workers), found = 0;
    for (uint32_t worker = 0; worker < victims->workers; worker++) {
        if (worker == victims->thief) {
            continue;
        }
        size_t its = load(context, worker);
        uint32_t place = found;
        while (place > 0 && loads[place - 1] < its) {
            place--;
        }
        if (place == most) {
            continue;
        }
        found += found < most;
        for (uint32_t i = found - 1; i > place; i--) {
            loads[i] = loads[i - 1];
            victims->busiest[i] = victims->busiest[i - 1];
        }
        loads[place] = its;
        victims->busiest[place] = worker;
    }
}

/* Begin a search of worker `thief` among `workers`. `load` is called only under LEAST_LOADED, here, once per other
 * worker. The stream and `next_victim` are the thief's own and change only when a victim is chosen. */
static inline LawVictims
law_victims(LawStealPolicy policy, uint32_t thief, uint32_t workers, LawRandomStream *stream, uint32_t *next_victim,
            LawLoad load, void *context)
{
    LawVictims victims = {
        .stream = stream,
        .next_victim = next_victim,
        .thief = thief,
        .workers = workers,
        .policy = (uint8_t)policy,
    };
    if (policy == LAW_STEAL_LEAST_LOADED) {
        law_find_busiest(&victims, load, context);
    }
    return victims;
}

/* The next worker to try. Returns false, and leaves `*victim` unchanged, when the attempts are used up. */
static inline bool
law_next_victim(LawVictims *victims, uint32_t *victim)
{
    uint32_t n = victims->workers;
    if (victims->tried >= law_attempts_max(n)) {
        return false;
    }
    switch (victims->policy) {
    case LAW_STEAL_RANDOM: {
        uint32_t other = (uint32_t)law_random_below(victims->stream, n - 1);
        *victim = other < victims->thief ? other : other + 1;
        break;
    }
    case LAW_STEAL_ROUND_ROBIN:
        *victims->next_victim = (*victims->next_victim + 1) % n;
        if (*victims->next_victim == victims->thief) {
            *victims->next_victim = (*victims->next_victim + 1) % n;
        }
        *victim = *victims->next_victim;
        break;
    default:
        *victim = victims->busiest[victims->tried];
        break;
    }
    victims->tried += 1;
    return true;
}
