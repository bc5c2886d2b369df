/* Visits: who calls a function of the C interface, and what is current for that caller.
 *
 * A visit is one call, by a task or by an outside thread. The current nursery, the last awaited result and the tick
 * counter of a task are in the task's record, and move with the task from thread to thread. Those of an outside
 * thread are in thread-local storage.
 *
 * ABI-1  thread-local storage is only in visit.c, and is read there in functions that are not inlined: after any call
 *     that can wait a task may run on another thread, and compilers keep addresses across calls
 * ABI-2  what is current for a task belongs to the task; thread-local storage has only what is current for outside
 *     threads, and for a worker's thread its runner
 * ABI-3  an outside thread is inside the runtime between visit_begin and visit_end, and shutdown waits for it; a task
 *     needs no such count, because shutdown waits for all tasks
 */
#pragma once

#include "abi/runtime.h"
#include "hints.h"

typedef struct {
    Runtime *runtime; /* NULL: there is none */
    Task *task;       /* NULL: an outside thread */
    Worker *worker;   /* the task's; NULL: an outside thread */
} Visit;

/* The running task, or NULL on an outside thread. It may be used without a visit (ABI-3). */
Task *visit_task(void);

/* The worker whose `current` is the running task, or NULL on an outside thread. */
Worker *visit_worker(void);

/* The slow paths of the next two functions, for outside threads. */
Visit visit_enter(void);
void visit_leave(const Visit *visit);

/* Begin and end a call. After the end the caller may not touch the runtime. */
static inline Visit
visit_begin(void)
{
    Task *task = visit_task();
    if (UNLIKELY(task == NULL)) {
        return visit_enter();
    }
    return (Visit){.runtime = &the_runtime, .task = task, .worker = task_worker(task)};
}

static inline void
visit_end(const Visit *visit)
{
    if (UNLIKELY(visit->task == NULL)) {
        visit_leave(visit);
    }
}

/* The caller pays one op for a call that makes a record or looks for one. Returns false if it must stop or cannot pay.
 * Call it before visit_begin: the task may get another worker. An outside thread pays nothing. */
static inline bool
visit_pay_op(void)
{
    Task *self = visit_task();
    return self == NULL || task_charge_op(self) == ENGINE_OK;
}

/* As visit_begin, but starts the runtime if there is none. */
Visit visit_begin_or_start(void);

/* The list of nurseries that the caller has opened and not awaited, innermost first. The pointer is valid until the
 * caller waits. */
Nursery **current_opened(const Visit *visit);

/* How the nursery ended that the caller awaited last. It is noted only for outside threads: the engine notes it for
 * tasks. */
void note_awaited(const Ending *ending);
Ending last_awaited(const Visit *visit);

/* The calling thread is about to call callbacks of the program, and has called them. The first function returns
 * whether it noted that, for the second one: on a worker's thread there is nothing to note. */
bool callbacks_begin(void);
void callbacks_end(bool noted);

/* Whether the caller may stop the runtime: not in a task or a callback, because the stop would wait for its own
 * caller. */
bool visit_may_stop(void);

/* The tick counter of the calling outside thread; it does not run out. */
int64_t *outside_ticks(void);

/* SchedulerOptions.thread_hook: a thread of the scheduler begins or ends. `runner` is its runner, or NULL. */
void visit_thread_hook(void *context, struct runner *runner);
