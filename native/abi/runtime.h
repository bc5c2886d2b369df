/* The one runtime of the process: its scheduler, the records of the C interface, and its start and stop.
 *
 *     down ── runtime_start ──► moving ──► running ── runtime_stop ──► moving ──► down
 *
 * A lock guards these states. Starting and stopping take long, so they happen in the state `moving`, without the
 * lock. In that state outside threads find no runtime, and a second start or stop is refused.
 */
#pragma once

#include "engine/scheduler.h"

typedef struct {
    Scheduler scheduler;
    Slab selects, tokens, callbacks;
    Lock tokens_lock;
    Nursery *fiber_calls; /* the nursery of mailbox.c, NULL before the first call; under tokens_lock */
    uint32_t epoch;       /* how many runtimes this process has started */
    uint32_t mark; /* the low four bits of the epoch, shifted by four: the highest byte of a handle without its kind */
} Runtime;

extern Runtime the_runtime; /* the one global of the C interface */

/* Start the runtime. ENGINE_OK; ENGINE_AGAIN if it is not down; otherwise the error of scheduler_start. */
int runtime_start(const SchedulerOptions *options);

/* Stop the runtime and free its records. Does nothing if it is not running. */
void runtime_stop(void);

bool runtime_is_running(void);

/* An outside thread enters the runtime, which then cannot be stopped before scheduler_leave. False if there is none. */
bool runtime_enter(void);
