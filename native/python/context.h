/* The context variables of new tasks: see context.c. All return 0, or -1 with an exception set. */

#ifndef BURSAR_PYTHON_CONTEXT_H
#define BURSAR_PYTHON_CONTEXT_H

#include "core.h"

int context_try(bool *comparable);             /* once: whether contexts can be told apart by what they hold */
int context_at_spawn(Kernel *k, Task *task);   /* what the task begins with, perhaps together with others (`borrows`) */
int context_of_its_own(Task *task);            /* before it begins, if it `borrows` */

#endif
