/* What worker.c has beyond records.h. */

#pragma once

#include "python/law/records.h"

/* Whether a task is in the timed lane of this worker. */
bool worker_in_timed(const Worker *worker, const Task *task);

/* The tasks of the timed lane in the order in which they will be taken, as a new list; NULL with MemoryError set. */
PyObject *worker_timed_list(const Worker *worker);

/* Take every task out of every lane. For the end of a kernel: lanes only borrow their tasks, and a worker may outlive
 * them. Cannot fail, and calls nobody. */
void worker_empty(Worker *worker);
