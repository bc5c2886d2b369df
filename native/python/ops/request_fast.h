/* Requests, the fast path: a request that need not wait is answered where it is awaited. The slow twin is
 * `driver_answer` in drive/request_answer.c: the coroutine yields the request, the driver performs it and resumes the
 * coroutine.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/ops/request.h"

/* `require_thread` in src/bursar/request.py. 0, or -1 with ScopeMisuse set: another thread drives the kernel. */
static inline int
require_thread(const Kernel *k, const char *what)
{
    if (k->thread == 0 || k->thread == PyThread_get_thread_ident()) {
        return 0;
    }
    return refuse_thread(k, what);
}

/* The running task, if a request of `k` can be answered without suspending it: `k` polls the task in this thread, no
 * other kernel is inside a poll, there is no meter, and no cancellation must be delivered first. Otherwise NULL. */
static inline Task *
running_task(const Kernel *k)
{
    Task *task = FAST_PATHS && k != NULL && k->answers ? k->current : NULL;
    bool may = task != NULL && k->st->polls == 1 && !task->cancel_pending && !task->cut &&
               k->thread == PyThread_get_thread_ident();
    return may ? task : NULL;
}
