/* How a poll ends, and what makes a waiting task runnable again (wake.c). After law/dispatch.py.
 *
 * The driver and the operations call this. All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

/* ---- how the poll of the running task ends */

int k_poll_over(Kernel *k, Task *task);               /* whatever follows; then the task must get a state */
int k_yielded(Kernel *k, Task *task);                 /* it is READY again */
void k_discard_answer(Task *task);                    /* drop an answer that came for a wait that was never begun */
int k_blocked(Kernel *k, Task *task, PyObject *wait); /* BLOCKED by a Wait, or an object that acts as one */
int k_blocked_bare(Kernel *k, Task *task, Request *operation); /* BLOCKED; the operation has enlisted the task itself */

/* ---- becoming runnable */

int k_end_wait(Kernel *k, Task *task, bool timed, int64_t deadline_ns); /* the wait is over: READY, and queued */
/* Wake a task of this generation. *notice says what came of it: queued, noted, merged or stale. */
int k_wake(Kernel *k, Task *task, uint64_t generation, PyObject *value, PyObject *error, bool effect,
           LawNotice *notice);
int k_answer(Kernel *k, PyObject *waiter,
             PyObject *value); /* `waiter` was taken off its list; the operation took place */
int k_refuse(Kernel *k, PyObject *waiter, PyObject *error); /* the same with an error */
int k_unpause(Kernel *k, Task *task);                       /* a paused BLOCKED task: its wakes count again */
int k_interrupt(Kernel *k, Task *task);                     /* end its wait, so that a cancellation can be delivered */
