/* The victims of a thief: never itself, never too many, and chosen one at a time. */
#include "check.h"

#include "law/steal.h"

static size_t
load_of(void *context, uint32_t worker)
{
    const size_t *loads = context;
    return loads[worker];
}

static void
test_never_itself_and_bounded(void)
{
    size_t loads[40] = {0};
    for (uint32_t n = 0; n <= 40; n++) {
        for (unsigned policy = LAW_STEAL_RANDOM; policy <= LAW_STEAL_LEAST_LOADED; policy++) {
            uint32_t thief = n / 2, next_victim = thief, tried = 0, victim;
            LawRandomStream stream = law_random_init(n, policy);
            LawVictims victims = law_victims((LawStealPolicy)policy, thief, n, &stream, &next_victim, load_of, loads);
            while (law_next_victim(&victims, &victim)) {
                CHECK(victim < n && victim != thief);
                tried += 1;
            }
            CHECK_EQUAL(tried, n < 2 ? 0 : n - 1 < 4 ? n - 1 : 4);
        }
    }
}

static void
test_an_attempt_not_made_draws_nothing(void)
{
    LawRandomStream stream = law_random_init(1, 1), untouched = stream;
    uint32_t next_victim = 0, victim;
    LawVictims victims = law_victims(LAW_STEAL_RANDOM, 0, 8, &stream, &next_victim, load_of, NULL);
    CHECK_EQUAL(stream.state, untouched.state);
    CHECK(law_next_victim(&victims, &victim));
    CHECK_EQUAL(stream.state, untouched.state + LAW_GOLDEN);
}

static void
test_round_robin_goes_on_where_it_stopped(void)
{
    uint32_t next_victim = 1, victim = 0;
    static const uint32_t expected[] = {2, 0, 2, 0};
    for (int i = 0; i < 4; i++) { /* one attempt per search */
        LawVictims victims = law_victims(LAW_STEAL_ROUND_ROBIN, 1, 3, NULL, &next_victim, load_of, NULL);
        CHECK(law_next_victim(&victims, &victim));
        CHECK_EQUAL(victim, expected[i]);
    }
}

static void
test_the_busiest_first(void)
{
    size_t loads[] = {3, 9, 1, 9, 100, 3, 2};
    static const uint32_t expected[] = {1, 3, 0, 5};
    LawVictims victims = law_victims(LAW_STEAL_LEAST_LOADED, 4, 7, NULL, NULL, load_of, loads);
    uint32_t victim = 0;
    for (int i = 0; i < 4; i++) {
        CHECK(law_next_victim(&victims, &victim));
        CHECK_EQUAL(victim, expected[i]);
    }
    CHECK(!law_next_victim(&victims, &victim));
}

int
main(void)
{
    test_never_itself_and_bounded();
    test_an_attempt_not_made_draws_nothing();
    test_round_robin_goes_on_where_it_stopped();
    test_the_busiest_first();
    return finish();
}
