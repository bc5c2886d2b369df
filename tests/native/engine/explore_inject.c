/* The injector under the schedule explorer: producers and takers, every schedule of small programs.
 *
 * A program is one word per thread, of p (push a link) and t (take up to two). The check: every pushed link comes out
 * exactly once, to a taker or to the check itself, which takes what is left. Each taker gets the links of one producer
 * in order. A refused push changes nothing, and happens only at the limit.
 */
#include <stdio.h>
#include <string.h>

#include "engine/inject.h"
#include "explore.h"
#include "weakmem.h"

enum { THREADS = 4, OPS_MAX = 16, LINKS_MAX = 64 };

static const char *words[THREADS];
static int64_t limit;
static Injector injector;
static InjectLink links[THREADS][OPS_MAX];
static bool accepted[THREADS][OPS_MAX];
static unsigned logs[THREADS + 1][LINKS_MAX]; /* producer * OPS_MAX + op, in the order in which they came out */
static unsigned logged[THREADS + 1];

static void
setup(void)
{
    inject_init(&injector, limit);
    explore_name(&injector.head, "head");
    explore_name(&injector.count, "count");
    explore_name(&injector.taking, "taking");
    explore_name(&injector.stub, "stub.next");
    memset(accepted, 0, sizeof accepted);
    memset(logged, 0, sizeof logged);
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned op = 0; op < OPS_MAX; op++) {
            links[t][op].next.cell = 0;
        }
    }
}

static size_t
take(unsigned log, size_t most)
{
    InjectLink *taken[LINKS_MAX];
    size_t count = inject_take(&injector, taken, most);
    for (size_t i = 0; i < count; i++) {
        logs[log][logged[log]++] = (unsigned)(taken[i] - &links[0][0]);
    }
    return count;
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
    for (unsigned op = 0; words[thread][op] != 0; op++) {
        uint64_t hash = op;
        for (unsigned i = 0; i < logged[thread]; i++) {
            hash = weak_mix(hash + 1 + logs[thread][i]);
        }
        for (unsigned i = 0; i < op; i++) {
            hash = weak_mix(hash + accepted[thread][i]);
        }
        explore_state(hash);
        if (words[thread][op] == 'p') {
            accepted[thread][op] = inject_push(&injector, &links[thread][op]);
            explore_require(accepted[thread][op] || limit != INJECT_UNLIMITED, "a push was refused");
        } else {
            take(thread, 2);
        }
    }
}

static void
finish(void)
{
    unsigned times[LINKS_MAX] = {0}, pushes = 0;
    while (take(THREADS, LINKS_MAX) != 0) {
    }
    explore_require(inject_length(&injector) == 0, "the count is wrong");
    for (unsigned t = 0; t <= THREADS; t++) {
        int last[THREADS] = {-1, -1, -1, -1};
        for (unsigned i = 0; i < logged[t]; i++) {
            unsigned link = logs[t][i];
            explore_require(++times[link] == 1, "a link came out twice");
            explore_require((int)(link % OPS_MAX) > last[link / OPS_MAX],
                            "a producer's links came out in another order");
            last[link / OPS_MAX] = (int)(link % OPS_MAX);
        }
    }
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned op = 0; op < OPS_MAX; op++) {
            explore_require(times[t * OPS_MAX + op] == accepted[t][op], "a link was lost");
            pushes += accepted[t][op];
        }
    }
    explore_require(pushes >= 1, "nothing was pushed at all");
}

static void
check(const char *first, const char *second, const char *third, int64_t most, uint64_t random_runs)
{
    char name[80];
    snprintf(name, sizeof name, "%s | %s | %s", first, second, third);
    ExploreProgram explored = {
        .name = name, .threads = *third ? 3 : 2, .setup = setup, .thread = body, .shared = shared, .finish = finish};
    words[0] = first;
    words[1] = second;
    words[2] = third;
    words[3] = "";
    limit = most;
    if (random_runs == 0) {
        explore_check_all(&explored);
    } else {
        explore_check_random(&explored, random_runs, 4);
    }
}

static void
test(bool long_form)
{
    check("pp", "tt", "", INJECT_UNLIMITED, 0);
    check("ppp", "ttt", "", INJECT_UNLIMITED, 0);
    check("pp", "pp", "", INJECT_UNLIMITED, 0);
    check("p", "p", "tt", INJECT_UNLIMITED, 0);
    check("pp", "t", "t", INJECT_UNLIMITED, 0);
    check("pt", "pt", "", INJECT_UNLIMITED, 0);
    check("pp", "pp", "t", 2, 0);
    if (long_form) {
        check("pp", "pp", "tt", INJECT_UNLIMITED, 0);
        check("ppp", "tt", "tt", INJECT_UNLIMITED, 0);
        check("pt", "pt", "t", INJECT_UNLIMITED, 0);
        check("pptpt", "ptptpt", "", INJECT_UNLIMITED, 0);
    }
    uint64_t runs = long_form ? 300000 : 10000;
    check("pppppppppp", "ppppptttttpp", "tttttttttttt", INJECT_UNLIMITED, runs);
    check("pppppppppp", "tttttttttttt", "tttttttttttt", INJECT_UNLIMITED, runs);
    check("ptptptptptpt", "ptptptptptpt", "pppppttttt", 3, runs);
}

int
main(int argc, char **argv)
{
    return explore_main(argc, argv, test);
}
