/* The C interface: profiles, and the budgets that are named after them.
 *
 * A profile says what is granted to whom nothing is said about. In native code a right is a number in a purse: whoever
 * has no spawns cannot spawn, whoever has no `recharge` cannot make money, and nobody hands down more than it has. So a
 * profile is a choice of numbers, and nothing else looks at it.
 *
 *     service    what is not stated is shared with whoever opened the nursery, spawns too; the root is open, or what the
 *                options say
 *     cluster    the same, with shorter turns: tasks are expected to be held, supervised and recharged
 *     sovereign  the root has what the options state and must state it; a task gets spawns only if its own options say so
 *     core       has no scheduler: starting one is refused
 */
#include "abi/abi.h"

bool
profile_allows(const janus_rt_options *options)
{
    switch (options->profile) {
    case JANUS_PROFILE_SERVICE:
    case JANUS_PROFILE_CLUSTER:
        return true;
    case JANUS_PROFILE_SOVEREIGN:
        return options->budget != NULL;
    default:
        return false;
    }
}

int64_t
profile_yield_interval(uint32_t profile)
{
    return profile == JANUS_PROFILE_CLUSTER ? LAW_YIELD_INTERVAL_CLUSTER : LAW_YIELD_INTERVAL;
}

janus_budget
janus_budget_of_profile(uint32_t profile)
{
    switch (profile) {
    case JANUS_PROFILE_SERVICE:
    case JANUS_PROFILE_SOVEREIGN: /* grants nothing by itself; these are the figures to begin with */
        return (janus_budget)LAW_BUDGET_SERVICE;
    case JANUS_PROFILE_CLUSTER:
        return (janus_budget)LAW_BUDGET_CLUSTER;
    default:
        return (janus_budget)LAW_BUDGET_NONE;
    }
}

janus_budget
janus_budget_of_child(void)
{
    return (janus_budget)LAW_BUDGET_CHILD;
}
