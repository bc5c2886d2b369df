/* Budgets of the C interface as budgets of the law. */
#pragma once

#include "include/janus_rt.h"
#include "law/budget.h"

/* NULL states no limit. */
static inline LawBudget
budget_in(const janus_budget *budget)
{
    static const LawBudget open = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};
    if (budget == NULL) {
        return open;
    }
    return (LawBudget){{budget->ops, budget->memory, budget->spawns, budget->channel_ops, budget->syscalls}};
}

/* Whether every component is JANUS_UNLIMITED, or a number from 0 to LAW_UNITS_MAX. */
static inline bool
budget_valid(const janus_budget *budget)
{
    LawBudget law = budget_in(budget);
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (law.limit[c] < LAW_OPEN || law.limit[c] > LAW_UNITS_MAX) {
            return false;
        }
    }
    return true;
}
