/* Profiles and the budgets that are named after them: see janus_profile.h, and include/janus_rt.h for the public
 * functions. */
#include "abi/janus_profile.h"

#include "law/budget.h"

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
    case JANUS_PROFILE_SOVEREIGN: /* grants nothing by itself: these are proposed numbers */
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
