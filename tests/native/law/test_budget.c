/* Budgets: clamping and comparing. */
#include "check.h"

#include "law/budget.h"

static const LawBudget UNSTATED = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};

static void
test_budgets(void)
{
    LawBudget a = {{1, LAW_OPEN, 3, LAW_OPEN, 0}}, b = {{2, 7, 2, LAW_OPEN, LAW_OPEN}};
    LawBudget least = law_budget_clamp(&a, &b);
    static const int64_t expected[] = {1, 7, 2, LAW_OPEN, 0};
    CHECK(memcmp(least.limit, expected, sizeof expected) == 0);
    CHECK(law_budget_within(&least, &a) && law_budget_within(&least, &b));
    CHECK(!law_budget_within(&a, &b) && !law_budget_within(&UNSTATED, &a) && law_budget_within(&a, &UNSTATED));
    CHECK(strcmp(law_component_name(LAW_CHANNEL_OPS), "channel_ops") == 0);
    CHECK(law_component_name(LAW_COMPONENTS) == NULL);
}

int
main(void)
{
    test_budgets();
    return finish();
}
