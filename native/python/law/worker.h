/* The record of a worker (worker.c): its lanes and counters. After law/lanes.py.
 *
 * dispatch.c decides which lane a task enters, and changes the queues. Only the timed lane, a heap, is changed here.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec worker_spec;

Worker *worker_new(ModuleState *st, int id, uint64_t seed); /* new reference, or NULL with MemoryError set */
/* Make room for one more entry in the timed lane. 0, or -1 with MemoryError set. */
int worker_reserve_timed(Worker *worker);
/* Enter a task that is in no lane, after `worker_reserve_timed`. Cannot fail. */
void worker_push_timed(Worker *worker, Task *task, int64_t deadline_ns);
/* Take a task out of the timed lane. It must be in it. Cannot fail. */
void worker_remove_timed(Worker *worker, Task *task);
/* The earliest task of the timed lane, if it is due; otherwise NULL. Borrowed; it stays in the lane. */
Task *worker_earliest(const Worker *worker, int64_t now_ns);
/* Whether a task is in the timed lane of this worker. */
bool worker_in_timed(const Worker *worker, const Task *task);

/* The tasks of the timed lane in the order in which they will be taken, as a new list; NULL with MemoryError set. */
PyObject *worker_timed_list(const Worker *worker);

/* Take every task out of every lane, at the end of a kernel: lanes only borrow their tasks, and a worker may outlive
 * the tasks. Cannot fail, and runs no Python code. */
void worker_empty(Worker *worker);
