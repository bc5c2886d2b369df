/* The context variables of new tasks: see context.c. All return 0, or -1 with an exception set. */

#ifndef BURSAR_PYTHON_CONTEXT_H
#define BURSAR_PYTHON_CONTEXT_H

#include "core.h"

int context_try(bool *comparable);             /* once: whether contexts can be told apart by what they hold */
int context_at_spawn(Kernel *k, Task *task);   /* what the task begins with, perhaps together with others (`borrows`) */
int context_of_its_own(Task *task);            /* for one that `borrows`: somebody wants to have it */
/* Around a poll. The context that the task runs in, new reference or NULL with an exception set; it is given back. */
PyObject *context_enter(Kernel *k, Task *task);
int context_exit(Kernel *k, Task *task, PyObject *context);

#endif
