/* The record of a worker (worker.c): its lanes and counters. After law/lanes.py.
 *
 * dispatch.c decides which lane a task enters and leaves; only the timed lane, which is a heap, is changed here.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec worker_spec;

Worker *worker_new(ModuleState *st, int id, uint64_t seed); /* new reference, or NULL with MemoryError set */
/* Room for one more entry in the timed lane. 0, or -1 with MemoryError set. */
int worker_reserve_timed(Worker *worker);
void worker_push_timed(Worker *worker, Task *task, int64_t deadline_ns); /* after worker_reserve_timed */
void worker_remove_timed(Worker *worker, Task *task);
Task *worker_earliest(const Worker *worker, int64_t now_ns); /* the earliest entry, if it is due; otherwise NULL */
/* Whether a task is in the timed lane of this worker. */
bool worker_in_timed(const Worker *worker, const Task *task);

/* The tasks of the timed lane in the order in which they will be taken, as a new list; NULL with MemoryError set. */
PyObject *worker_timed_list(const Worker *worker);

/* Take every task out of every lane. For the end of a kernel: lanes only borrow their tasks, and a worker may outlive
 * them. Cannot fail, and runs no Python code. */
void worker_empty(Worker *worker);
