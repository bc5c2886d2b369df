/* For compilers: scheduling without handles, budgets of the running task, and the yield check of a loop.
 *
 *     janus_ticks *ticks = janus_ticks_get();
 *     for (...) {
 *         if (janus_tick(ticks) != JANUS_OK) { unwind; }
 *         ...
 *     }
 *
 * The counter belongs to the task and moves with it from thread to thread; it is fetched once per function. On a thread that
 * runs no task it never runs out, and belongs to that thread. */
#ifndef JANUS_INTEROP_H
#define JANUS_INTEROP_H

#include "janus_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the runtime. NULL if it is up already, or cannot be started. */
JANUS_API void *janus_scheduler_create(janus_rt_config config);
/* Stops it, if this is its handle. */
JANUS_API void janus_scheduler_shutdown(void *scheduler);
/* Into the current nursery: 0; -1 if there is none, or it refuses. */
JANUS_API int janus_scheduler_spawn(janus_task_fn fn, void *arg);
/* 0; -1 if this is no task, or the task is to stop. */
JANUS_API int janus_scheduler_yield(void);

/* What the running task has left; outside tasks what the runtime has; all 0 without one. */
JANUS_API janus_budget janus_budget_get_current(void);
/* The running task gives itself more, as far as it was allowed to (janus_task_options.recharge). 0, or -1. */
JANUS_API int janus_budget_recharge(janus_budget amount);
/* Whoever opened the nursery of `task` gives it more, out of the nursery's purse, and it goes on if it waits for that. 0, or
 * -1: it has never had to wait, is not a child of the caller's, has no budget of its own, or the purse has too little. */
JANUS_API int janus_budget_recharge_child(janus_task task, janus_budget amount);

/* A child of the caller's that waits for a recharge (janus_nursery_options.hold), or 0. Of several another one each
 * time. Its supervisor recharges it, cancels it, or lets it wait. */
JANUS_API janus_task janus_supervisor_poll_exhausted(void);

typedef struct {
    int64_t left; /* ops until somebody must be asked */
} janus_ticks;

JANUS_API janus_ticks *janus_ticks_get(void);
/* The slow half of a tick: `ops` were subtracted, and there were not so many. */
JANUS_API int janus_ticks_spent(janus_ticks *ticks, int64_t ops);

/* One op, a loop iteration or a call: a decrement and a branch. JANUS_OK, JANUS_CANCELLED or JANUS_BUDGET_EXCEEDED. */
static inline int
janus_tick(janus_ticks *ticks)
{
    /* Unsigned: what a compiler may not reason about, it takes from the flags of the subtraction. */
    ticks->left = (int64_t)((uint64_t)ticks->left - 1);
    return __builtin_expect(ticks->left < 0, 0) ? janus_ticks_spent(ticks, 1) : JANUS_OK;
}

/* Several at once, for a loop that checks every so many iterations. */
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
