/* What is current for a caller; see abi.h. All of it is in janus_rt.c, where the thread-local storage is. */
#pragma once

#include "abi/abi.h"

/* The list of nurseries that the caller has opened, innermost first. The pointer is good until the caller waits. */
Nursery **current_opened(const Visit *visit);

/* Spawn into the innermost of them: 0, or -1. `through` is an adapter, or NULL. The long way of janus_nursery_spawn:
 * the short one is in janus_rt.c. */
int spawn_current(janus_task_fn fn, void *arg, int64_t (*through)(void *task));

/* The last ending that the caller has awaited; it is noted for threads outside, a task's own is kept by the engine. */
void note_awaited(const Ending *ending);
Ending last_awaited(const Visit *visit);

/* A callback is about to be called, or was: on a thread outside no shutdown is possible in it, which would wait for
 * this very call. Answers whether it was noted: on a worker there is nothing to note. */
bool calling_out(bool begin);

/* A counter of the calling thread's own that will not run out. */
int64_t *outside_ticks(void);
