/* Requests, the fast path: one that needs no wait is answered where it is awaited. The slow twin is `driver_answer` in
 * drive/request_answer.c: the coroutine yields the request, the driver performs it and resumes the coroutine.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/ops/request.h"

/* The task for which a request can be answered without suspending anybody: the one that its own kernel polls, in this
 * thread, in no poll of another kernel, unobserved and unmetered, with nothing else to tell it first. Else NULL. */
static inline Task *
on_the_spot(const Kernel *k)
{
    Task *task = FAST_PATHS && k != NULL && k->answers ? k->current : NULL;
    bool may = task != NULL && k->st->polls == 1 && !task->cancel_pending && !task->cut &&
               k->thread == PyThread_get_thread_ident();
    return may ? task : NULL;
}
