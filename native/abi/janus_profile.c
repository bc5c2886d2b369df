/* The C interface: profiles, and the budgets that are named after them.
 *
 * A profile says what is granted to whom nothing is said about. In native code a right is a number in a purse: whoever has no
 * spawns cannot spawn, whoever has no `recharge` cannot make money, and nobody hands down more than it has. So a profile is
 * a choice of numbers, and nothing else looks at it.
 *
 *     service    what is not stated is shared with whoever opened the nursery, spawns too; the root is open, or what the
 *                options say
 *     cluster    the same, with shorter turns: tasks are expected to be held, supervised and recharged
 *     sovereign  the root has what the options state and must state it; a task gets spawns only if its own options say so
 *     core       has no scheduler: starting one is refused
 */
#include "abi/abi.h"

#define CLUSTER_YIELD_INTERVAL_OPS INT64_C(512) /* actors answer more often than they compute */

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
    return profile == JANUS_PROFILE_CLUSTER ? CLUSTER_YIELD_INTERVAL_OPS : YIELD_INTERVAL_OPS;
}

janus_budget
janus_budget_of_profile(uint32_t profile)
{
    const int64_t mib = INT64_C(1) << 20;
    switch (profile) {
    case JANUS_PROFILE_SERVICE:
    case JANUS_PROFILE_SOVEREIGN: /* grants nothing by itself; these are the figures to begin with */
        return (janus_budget){100000, 10 * mib, 100, 1000, 100};
    case JANUS_PROFILE_CLUSTER:
        return (janus_budget){1000000, 100 * mib, 1000, 10000, 1000};
    default:
        return (janus_budget){0, 0, 0, 0, 0};
    }
}

janus_budget
janus_budget_of_child(void)
{
    return (janus_budget){10000, INT64_C(1) << 20, 0, 100, 10};
}
