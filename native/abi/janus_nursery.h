/* What the rest of the C interface needs of janus_nursery.c. Contract of its public functions: include/janus_rt.h. */
#pragma once

#include "include/janus_rt.h"

/* Spawn into the caller's current nursery: 0, or -1. `through` adapts the function's type, NULL for a janus_task_fn.
 * This is the slow path of janus_nursery_spawn (visit.c). */
int spawn_current(janus_task_fn fn, void *arg, int64_t (*through)(void *task));
