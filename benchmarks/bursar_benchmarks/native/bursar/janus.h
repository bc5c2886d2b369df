/* The common part of the programs in this folder. They use the C interface as any program does, with budgets,
 * cancellation, guards and statistics on. */
#ifndef BURSAR_BENCH_JANUS_H
#define BURSAR_BENCH_JANUS_H

#include "janus_interop.h"
#include "measure.h"

static inline void
start(int count, char **arguments)
{
    janus_rt_config config = {(uint32_t)argument(count, arguments, 1, 1), 1};
    if (janus_rt_init(config) != 0) {
        fail("the runtime did not start");
    }
}

/* Run one task to its end, under a finite budget: every spawn, op and message of the workload is paid for. */
static inline void
run(janus_task_fn fn, void *arg)
{
    janus_budget purse = {INT64_C(1) << 50, INT64_C(1) << 50, INT64_C(1) << 50, INT64_C(1) << 50, INT64_C(1) << 50};
    janus_nursery_options options = {.size = sizeof options, .budget = &purse};
    janus_task_options big = {.size = sizeof big, .stack_bytes = 64 << 10}; /* the root prints and reads files */
    void *nursery = janus_nursery_open(&options);
    if (janus_nursery_spawn_with(nursery, fn, arg, &big, NULL) != 0 || janus_nursery_await(nursery) != 0) {
        fail("a task did not end well");
    }
    janus_nursery_destroy(nursery);
}

#endif
