/* An owner that awaits its children runs them itself (help_children.c, with HELP-1 to HELP-4). */
#pragma once

#include "engine/nursery.h"

/* The owner, before it waits, runs its children that have not begun, as long as they are what comes next. Returns a
 * task that came next and is not one of them, or NULL. */
Task *nursery_help(Nursery *nursery, Task *self);

/* For task_must_stop: whether the running task is to stop. */
bool task_look_for_requests(Task *self);
