/* The end of a poll, and what makes a waiting task runnable again (dispatch_wake.c). After law/dispatch.py.
 *
 * Functions that return int return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

/* ---- the end of the poll of the running task */

/* No task is `current` any more. The caller must then change the state of the task. */
int k_poll_over(Kernel *k, Task *task);
/* The task yielded: it is READY again, at the back of its queue. */
int k_yielded(Kernel *k, Task *task);
/* Discard an answer that came during the poll: the poll did not end in a wait. */
void k_discard_answer(Task *task);
/* The task waits, with a Wait or a Python object that has its methods. */
int k_blocked(Kernel *k, Task *task, PyObject *wait);
/* The task waits bare: `operation` has put the task itself into its queue. */
int k_blocked_bare(Kernel *k, Task *task, Request *operation);

/* ---- becoming runnable */

/* Withdraw the task's wait from its queues, and queue the task. */
int k_end_wait(Kernel *k, Task *task, bool timed, int64_t deadline_ns);
/* Take a wake for the wait that ends poll `generation`. *notice is its effect: enqueue, noted, merged or stale.
 * `effect`: the operation took effect, and `value` is its result (CANCEL-3). */
int k_wake(Kernel *k, Task *task, uint64_t generation, PyObject *value, PyObject *error, bool effect,
           LawNotice *notice);
/* The operation took effect: resume the task of `waiter`, which was taken out of its list, with `value`. */
int k_answer(Kernel *k, PyObject *waiter, PyObject *value);
/* The operation is impossible: resume the task of `waiter` with `error`. */
int k_refuse(Kernel *k, PyObject *waiter, PyObject *error);
/* End the pause of a BLOCKED task. Wakes were only noted during the pause; from now on they count. */
int k_unpause(Kernel *k, Task *task);
/* Move a task that was asked to stop, or was cut, to the cancel lane (CANCEL-4). */
int k_interrupt(Kernel *k, Task *task);
