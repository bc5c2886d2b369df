/* Parking under the schedule explorer: in no schedule is a wake-up or a role lost.
 *
 * One or two workers look for work and park, as an engine's worker does. A publisher makes work visible, notifies, and
 * then never looks again, like a task that spawned and now computes. A worker may leave after `pieces_max` pieces, like
 * a worker that got a long task; then another worker must get the rest. The checks:
 *
 * 1. When all workers sleep, no work is left: work, a sleeping worker and no searching worker together are a failure.
 *
 * 2. When all workers sleep, the word counts all of them and no searcher, and the set bits are those of the sleepers.
 *
 * 3. Every piece of work is taken exactly once.
 */
#include <stdio.h>
#include <string.h>

#include "engine/deque.h"
#include "engine/idle.h"
#include "engine/inject.h"
#include "explore.h"
#include "weakmem.h"

enum { WORKERS_MAX = 3, PIECES_MAX = 32, THREADS = 4 };

typedef struct {
    const char *name;
    unsigned workers;    /* threads 0 … workers − 1; the others publish */
    unsigned pieces_max; /* a worker leaves after so many pieces; 0: never */
    bool timed;          /* parks have a deadline, which may pass at any time */
    bool plain_fences;   /* as on systems without membarrier */
    bool eager; /* a worker without the role asks for it; otherwise it parks at once, and looks only when it is woken */
    /* b: one more piece in its own box, notify. d: the same with its own deque. i: inject, notify.
     * 0, 1: call that worker. n: notify without work. s: stop, and call all workers. */
    const char *publishers[3];
} Case;

/* The smallest container that one thread fills and all empty: it keeps the number of schedules small in tests of
 * parking. */
typedef struct {
    atomic_i64 filled; /* by its owner */
    atomic_i64 emptied;
} Box;

static const Case *chosen;
static Box boxes[THREADS];
static IdleSet set;
static Deque deques[THREADS];
static Injector injector;
static InjectLink links[PIECES_MAX];
static atomic_u32 stop;
static unsigned got[THREADS][PIECES_MAX], had[THREADS]; /* by each worker */

/* Whether publisher `thread` has `letter` in its word. */
static bool
publishes(unsigned thread, char letter)
{
    const char *word = thread < chosen->workers ? NULL : chosen->publishers[thread - chosen->workers];
    return word != NULL && strchr(word, letter) != NULL;
}

/* Whether any publisher has. */
static bool
any_publishes(char letter)
{
    return publishes(chosen->workers, letter) || publishes(chosen->workers + 1, letter);
}

/* After a fence, by any thread: whether there is work. */
static bool
pending(void *context, uint32_t worker)
{
    (void)context;
    (void)worker;
    if (any_publishes('i') && inject_length(&injector) != 0) {
        return true;
    }
    for (unsigned t = chosen->workers; t < THREADS; t++) {
        if ((publishes(t, 'd') && deque_length(&deques[t]) != 0) ||
            (publishes(t, 'b') && load_i64(&boxes[t].filled, RELAXED) > load_i64(&boxes[t].emptied, RELAXED))) {
            return true;
        }
    }
    return false;
}

static void
setup(void)
{
    static const char *const deque_names[THREADS] = {"0.bottom", "1.bottom", "2.bottom", "3.bottom"};
    idle_init(&set, chosen->workers, pending, NULL, &explore_memory);
    set.asymmetric = !chosen->plain_fences;
    explore_name(&set.word, "word");
    explore_name(&set.bits[0], "bits");
    explore_name(&set.parkers[0].word, "parker 0");
    if (chosen->workers > 1) {
        explore_name(&set.parkers[1].word, "parker 1");
    }
    inject_init(&injector, INJECT_UNLIMITED);
    explore_name(&injector.count, "inject.count");
    for (unsigned t = 0; t < THREADS; t++) {
        deque_init(&deques[t], 4, &explore_memory);
        explore_name(&deques[t].bottom, deque_names[t]);
        init_i64(&boxes[t].filled, 0);
        init_i64(&boxes[t].emptied, 0);
    }
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        links[i].next.cell = 0;
    }
    init_u32(&stop, 0);
    memset(got, 0, sizeof got);
    memset(had, 0, sizeof had);
}

/* One look at every place. Returns how many pieces it found: 0 or 1. */
static unsigned
find(unsigned self)
{
    InjectLink *link;
    void *item;
    if (any_publishes('i') && inject_take(&injector, &link, 1) == 1) {
        got[self][link - links]++;
        return 1;
    }
    for (unsigned t = chosen->workers; t < THREADS; t++) {
        if (publishes(t, 'd') && deque_steal(&deques[t], &item) == STEAL_DONE) {
            got[self][(uintptr_t)item]++;
            return 1;
        }
        if (publishes(t, 'b')) {
            int64_t emptied = load_i64(&boxes[t].emptied, RELAXED);
            if (load_i64(&boxes[t].filled, ACQUIRE) > emptied &&
                cas_i64(&boxes[t].emptied, &emptied, emptied + 1, ACQ_REL)) {
                got[self][(t - chosen->workers) * 8 + (unsigned)emptied + 1]++;
                return 1;
            }
        }
    }
    return 0;
}

static void
worker(unsigned self)
{
    bool searching = false;
    for (;;) {
        uint64_t hash = had[self] * 2 + searching;
        for (unsigned i = 0; i < PIECES_MAX; i++) {
            hash = weak_mix(hash + got[self][i]);
        }
        explore_state(hash);
        if (any_publishes('s') && load_u32(&stop, ACQUIRE) != 0) {
            if (searching) {
                idle_search_end(&set);
            }
            return;
        }
        if (!searching && chosen->eager) {
            searching = idle_search_begin(&set);
        }
        unsigned found = searching ? find(self) : 0;
        if (found != 0) {
            idle_search_end(&set);
            searching = false;
            if (++had[self] == chosen->pieces_max) {
                return;
            }
            continue;
        }
        searching = idle_park(&set, self, searching, chosen->timed ? 1 : PARK_FOREVER) == IDLE_SEARCH;
        explore_pause();
    }
}

static void
publisher(unsigned self)
{
    unsigned piece = (self - chosen->workers) * 8 + 1;
    for (const char *word = chosen->publishers[self - chosen->workers]; *word != 0; word++) {
        explore_state((uintptr_t)word + (uint64_t)deques[self].top_seen);
        if (*word == 'd') {
            deque_push(&deques[self], (void *)(uintptr_t)piece++);
            idle_notify(&set);
        } else if (*word == 'i') {
            inject_push(&injector, &links[piece++]);
            idle_notify(&set);
        } else if (*word == 'b') {
            store_i64(&boxes[self].filled, load_i64(&boxes[self].filled, RELAXED) + 1, RELEASE);
            idle_notify(&set);
        } else if (*word == 'n') {
            idle_notify(&set);
        } else if (*word == 's') {
            store_u32(&stop, 1, RELEASE);
            for (uint32_t w = 0; w < chosen->workers; w++) {
                idle_call(&set, w);
            }
        } else {
            idle_call(&set, (uint32_t)(*word - '0'));
        }
    }
}

/* `taking` passes the tail from taker to taker. */
static uint64_t
shared(void)
{
    return (uintptr_t)injector.tail;
}

static void
body(unsigned thread)
{
    if (thread < chosen->workers) {
        worker(thread);
    } else {
        publisher(thread);
    }
}

static unsigned
published(bool *stops)
{
    unsigned pieces = 0;
    *stops = false;
    for (unsigned p = 0; p < 3 && chosen->publishers[p] != NULL; p++) {
        for (const char *word = chosen->publishers[p]; *word != 0; word++) {
            pieces += *word == 'd' || *word == 'i' || *word == 'b';
            *stops = *stops || *word == 's';
        }
    }
    return pieces;
}

static unsigned
times_got(unsigned piece)
{
    unsigned times = 0;
    for (unsigned t = 0; t < THREADS; t++) {
        times += got[t][piece];
    }
    return times;
}

static bool
may_rest(void)
{
    bool stops;
    unsigned pieces = published(&stops), found = 0;
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        found += times_got(i);
    }
    return found == pieces && !stops;
}

static void
finish(void)
{
    bool stops;
    unsigned pieces = published(&stops), found = 0;
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        explore_require(times_got(i) <= 1, "a piece of work was got twice");
        found += times_got(i);
    }
    uint64_t word = load_u64(&set.word, RELAXED);
    uint64_t bits = load_u64(&set.bits[0], RELAXED);
    explore_require(idle_searching(word) == 0, "no worker searches, but a role is taken");
    explore_require((uint32_t)__builtin_popcountll(bits) == idle_count(word), "the bits are not those of the sleepers");
    if (stops || (chosen->pieces_max != 0 && found < chosen->pieces_max * chosen->workers)) {
        return; /* a worker that stops leaves work, and so does one that has its `pieces_max` */
    }
    explore_require(found == pieces || found == chosen->pieces_max * chosen->workers, "work was lost");
}

static void
check(const Case *explored_case, bool strong, uint64_t random_runs)
{
    unsigned publishers = 0;
    while (publishers < 3 && explored_case->publishers[publishers] != NULL) {
        publishers++;
    }
    ExploreProgram explored = {
        .name = explored_case->name,
        .threads = explored_case->workers + publishers,
        .setup = setup,
        .thread = body,
        .may_rest = may_rest,
        .shared = shared,
        .finish = finish,
        .strong = strong,
    };
    chosen = explored_case;
    if (random_runs == 0) {
        explore_check_all(&explored);
        if (explored.threads > 2 && !chosen->timed) {
            return;
        }
        explored.spurious = 1;
        explored.name = chosen->timed ? "  the same, one passes" : "  the same, one idle wake";
        explore_check_all(&explored);
    } else {
        explored.spurious = 3;
        explore_check_random(&explored, random_runs, 5);
    }
}

static void
test(bool long_form)
{
    static const Case two[] = {
        {"a deque", 1, 0, false, false, true, {"dd"}},      {"a deque, plain fences", 1, 0, false, true, true, {"dd"}},
        {"the injector", 1, 0, false, false, true, {"ii"}}, {"called and notified", 1, 0, false, false, true, {"0b0b"}},
        {"deadlines", 1, 0, true, false, true, {"bb"}},     {"stopped", 1, 0, false, false, true, {"bs"}},
    };
    static const Case three[] = {
        {"two publishers", 1, 0, false, false, false, {"b", "b"}},
    };
    static const Case three_more[] = {
        {"two workers", 2, 0, false, false, false, {"b"}},
        {"one each", 2, 1, false, false, false, {"bb"}},
        {"two publishers, injector", 1, 0, false, false, false, {"i", "i"}},
        {"two publishers, eager", 1, 0, false, false, true, {"b", "b"}},
        {"two workers, more", 2, 0, false, false, false, {"bb"}},
        {"two workers, notified idly", 2, 0, false, false, false, {"bn"}},
        {"two workers, called", 2, 0, false, false, false, {"0b"}},
        {"two workers, stopped", 2, 0, false, false, false, {"s"}},
        {"two workers, deadlines", 2, 0, true, false, false, {"b"}},
        {"one each, a deque", 2, 1, false, false, false, {"dd"}},
        {"one each, eager", 2, 1, false, false, true, {"bb"}},
    };
    static const Case three_weak[] = {
        {"two publishers", 1, 0, false, false, false, {"b", "b"}},
    };
    static const Case random[] = {
        {"three workers", 3, 0, false, false, true, {"dddidd"}},
        {"three workers, two each", 3, 2, false, false, true, {"dddddd"}},
        {"two and two", 2, 0, false, false, true, {"ddddd", "iiiii"}},
        {"two and two, one each", 2, 1, false, false, true, {"d", "i"}},
        {"two and two, plain fences", 2, 0, false, true, true, {"didid", "ididi"}},
        {"two and two, called", 2, 0, false, false, true, {"d0d1d0", "1i0i1i"}},
        {"two and two, deadlines", 2, 0, true, false, true, {"dddd", "iiii"}},
        {"two and two, stopped", 2, 0, false, false, true, {"ddd", "iis"}},
    };
    for (unsigned i = 0; i < sizeof two / sizeof *two; i++) {
        check(&two[i], false, 0);
    }
    for (unsigned i = 0; i < sizeof three / sizeof *three; i++) {
        check(&three[i], true, 0);
    }
    for (unsigned i = 0; long_form && i < sizeof three_more / sizeof *three_more; i++) {
        check(&three_more[i], true, 0);
    }
    for (unsigned i = 0; long_form && i < sizeof three_weak / sizeof *three_weak; i++) {
        check(&three_weak[i], false, 0);
    }
    for (unsigned i = 0; i < sizeof random / sizeof *random; i++) {
        check(&random[i], false, long_form ? 300000 : 2000);
    }
}

int
main(int argc, char **argv)
{
    return explore_main(argc, argv, test);
}
