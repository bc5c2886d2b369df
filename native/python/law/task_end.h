/* The end of a task (task_end.c). After law/kernel.py. */

#pragma once

#include "python/law/task.h"

/* End a task with `content` (value, error or reason), or with `outcome` if that is not NULL. 1: the task is DONE. 0: it
 * waits for its children first. -1 with an exception set. */
int k_finish(Kernel *k, Task *task, LawOutcome kind, PyObject *content, PyObject *outcome);
/* The running task returned `value`; steals that reference. 0, or -1 with an exception set. */
int k_returned(Kernel *k, Task *task, PyObject *value);
