/* Profiles: what a task may spend if its options do not say so.
 *
 * In native code a right is a number in a purse. A task without spawns cannot spawn, a task without `recharge` cannot
 * give itself more, and no task passes on more than it has. So a profile is only a choice of numbers and of the
 * length of a turn.
 *
 *     service    a task shares the budget of its nursery, spawns included; the runtime has the budget of its options,
 *                or no limit
 *     cluster    the same, with shorter turns: tasks are expected to be held, supervised and recharged
 *     sovereign  the runtime's options must have a budget; a task gets spawns only by a budget of its own
 *     core       has no scheduler: a runtime cannot be started with it
 */
#pragma once

#include "include/janus_rt.h"

/* Whether a runtime may be started with these options. */
bool profile_allows(const janus_rt_options *options);

/* The ops of one turn: after them a task lets others run. */
int64_t profile_yield_interval(uint32_t profile);
