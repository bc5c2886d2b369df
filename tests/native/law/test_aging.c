/* The priority that counts after a wait. */
#include "check.h"

#include "law/admission/aging.h"

static int64_t
effective(int64_t priority, int64_t wait_ns, int64_t boost)
{
    int64_t found = -1;
    CHECK(law_effective_priority(priority, wait_ns, 10, boost, &found));
    return found;
}

static void
test_each_whole_interval_counts(void)
{
    CHECK_EQUAL(effective(10, 9, 3), 10);
    CHECK_EQUAL(effective(10, 10, 3), 13);
    CHECK_EQUAL(effective(-10, 20, 3), -4);
}

static void
test_without_aging_a_long_wait_adds_nothing(void)
{
    CHECK_EQUAL(effective(10, INT64_MAX, 0), 10);
}

static void
test_a_priority_that_does_not_fit_is_refused(void)
{
    int64_t found;
    CHECK(!law_effective_priority(0, INT64_MAX, 1, 2, &found));
    CHECK(law_effective_priority(LAW_PRIORITY_MAX, INT64_MAX - LAW_PRIORITY_MAX, 1, 1, &found));
    CHECK_EQUAL(found, INT64_MAX);
}

int
main(void)
{
    test_each_whole_interval_counts();
    test_without_aging_a_long_wait_adds_nothing();
    test_a_priority_that_does_not_fit_is_refused();
    return finish();
}
