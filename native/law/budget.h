/* Budgets: limits on what a task may spend, one for each component. Mirrors src/bursar/law/budget.py.
 *
 * A LawBudget is a statement: five numbers, where LAW_OPEN means that no limit is stated. law/pool.h has the accounts,
 * and law/costs.h what each operation costs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/costs.h"
#include "law/generated/limits.h"

#define LAW_OPEN INT64_C(-1) /* no limit: an open pool, or a component that is not stated */

/* The name of a component, as in `COMPONENTS`; NULL for any other number. */
static inline const char *
law_component_name(unsigned component)
{
    static const char *const names[LAW_COMPONENTS] = LAW_COMPONENT_NAMES;
    return component < LAW_COMPONENTS ? names[component] : NULL;
}

/* Five limits. LAW_OPEN means that none is stated; 0 means that nothing is granted. */
typedef struct {
    int64_t limit[LAW_COMPONENTS];
} LawBudget;

/* The smaller of two limits. No limit is larger than any number. */
static inline int64_t
law_least(int64_t a, int64_t b)
{
    if (a == LAW_OPEN || b == LAW_OPEN) {
        return a == LAW_OPEN ? b : a;
    }
    return a < b ? a : b;
}

/* The smaller of two budgets, component by component. */
static inline LawBudget
law_budget_clamp(const LawBudget *budget, const LawBudget *limit)
{
    LawBudget least;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        least.limit[c] = law_least(budget->limit[c], limit->limit[c]);
    }
    return least;
}

/* Whether no component exceeds the same component of `limit`. */
static inline bool
law_budget_within(const LawBudget *budget, const LawBudget *limit)
{
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (law_least(budget->limit[c], limit->limit[c]) != budget->limit[c]) {
            return false;
        }
    }
    return true;
}

/* How many components a budget states. A task or nursery that is made with it has as many pools of its own. */
static inline int
law_budget_stated(const LawBudget *budget)
{
    int stated = 0;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        stated += budget->limit[c] != LAW_OPEN;
    }
    return stated;
}
