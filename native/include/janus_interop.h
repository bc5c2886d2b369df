/* For compilers: the yield check of a loop, budgets of the running task, and a scheduler without handles.
 *
 *     janus_ticks *ticks = janus_ticks_get();
 *     for (...) {
 *         if (janus_tick(ticks) != JANUS_OK) { clean up and return the code; }
 *         ...
 *     }
 *
 * A tick counter belongs to a task and moves with it from thread to thread. A function fetches it once, at its
 * beginning. A thread that runs no task has its own counter, which does not run out.
 *
 * janus_rt.h explains tasks, nurseries, budgets, handles and results. */
#ifndef JANUS_INTEROP_H
#define JANUS_INTEROP_H

#include "janus_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the scheduler: other names for the one runtime of janus_rt.h */

/* Starts the runtime. Returns its handle. Returns NULL if the runtime is running already, or without memory or
 * threads. */
JANUS_API void *janus_scheduler_create(janus_rt_config config);

/* As janus_rt_shutdown, if `scheduler` is the handle of the running runtime. Otherwise does nothing. */
JANUS_API void janus_scheduler_shutdown(void *scheduler);

/* As janus_nursery_spawn: spawns into the current nursery. Returns 0. Returns -1 if there is no nursery, or it
 * refuses. */
JANUS_API int janus_scheduler_spawn(janus_task_fn fn, void *arg);

/* As janus_yield. Returns 0. Returns -1 outside tasks, and if the task must stop or has no budget. */
JANUS_API int janus_scheduler_yield(void);

/* ---- budgets of running tasks */

/* Returns what the running task can still spend; outside tasks, what the runtime can. JANUS_UNLIMITED where there is no
 * limit. All components are 0 if there is no runtime. */
JANUS_API janus_budget janus_budget_get_current(void);

/* The running task gives itself `amount`, within the right that it was spawned with (janus_task_options.recharge).
 * The call costs 1 op, which it may pay out of `amount`. Returns 0, or -1: outside tasks, without that right, or beyond
 * it. */
JANUS_API int janus_budget_recharge(janus_budget amount);

/* Gives `amount` to a child of a nursery that the caller has opened and not awaited. The nursery's budget pays. If the
 * child waits for budget, it runs on. Returns 0, or -1: the task is no such child, has never waited, has no budget of
 * its own, or the nursery's budget is too small. */
JANUS_API int janus_budget_recharge_child(janus_task task, janus_budget amount);

/* Returns a child that waits for budget (janus_nursery_options.hold), in a nursery that the caller has opened and not
 * awaited; 0 if there is none. If several children of a nursery wait, each call returns another one. The caller can
 * recharge the child, cancel it, or let it wait. */
JANUS_API janus_task janus_supervisor_poll_exhausted(void);

/* ---- ticks: the yield check of a loop */

/* A tick counter. Read and write it only through the functions below. */
typedef struct {
    int64_t left; /* ticks until the next call of janus_ticks_spent */
} janus_ticks;

/* Returns the counter of the running task; outside tasks, that of the calling thread. Never NULL. The counter of a task
 * is valid until the task ends; do not free it, and do not give it to another task. */
JANUS_API janus_ticks *janus_ticks_get(void);

/* The slow path of the two functions below, after `ops` were subtracted and the counter was too low. Pays for the ops,
 * lets other tasks run, and returns as janus_tick does; JANUS_INVALID if `ticks` is not the counter of the running
 * task. */
JANUS_API int janus_ticks_spent(janus_ticks *ticks, int64_t ops);

/* Counts one op: one iteration of a loop, or one call. It is a decrement and a branch. Returns JANUS_OK,
 * JANUS_CANCELLED if the task must stop, or JANUS_BUDGET_EXCEEDED if it cannot pay. */
static inline int
janus_tick(janus_ticks *ticks)
{
    /* Unsigned, so that the compiler tests the result of the subtraction by the processor's flags: a signed one must
     * not overflow, and clang then compares the value before it. */
    ticks->left = (int64_t)((uint64_t)ticks->left - 1);
    return __builtin_expect(ticks->left < 0, 0) ? janus_ticks_spent(ticks, 1) : JANUS_OK;
}

/* Counts `ops` at once, for a loop that checks once in several iterations. Returns as janus_tick does. */
static inline int
janus_tick_many(janus_ticks *ticks, int64_t ops)
{
    ticks->left = (int64_t)((uint64_t)ticks->left - (uint64_t)ops);
    return __builtin_expect(ticks->left < 0, 0) ? janus_ticks_spent(ticks, ops) : JANUS_OK;
}

#ifdef __cplusplus
}
#endif

#endif
