/* An owner that awaits its children runs them itself (help_children.c, with HELP-1 to HELP-4). */
#pragma once

#include "engine/nursery.h"

/* Called by the owner before it waits: runs its fresh children as long as they come next. Returns a task that came next
 * and is not one of them, or NULL. */
Task *nursery_help(Nursery *nursery, Task *self);

/* The slow half of task_must_stop: whether the running task must stop. */
bool task_look_for_requests(Task *self);
