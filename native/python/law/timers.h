/* Timers (timers.c): what is armed, ordered by (deadline, id). After law/timers.py.
 *
 * Operations, timeouts and cleanup arm timers; timer_fire.c takes due timers out.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec timer_spec;

/* The deadline of what is armed now and runs for so long: no later than the end of time (`TIME_END_NS`). */
static inline int64_t
k_deadline(const Kernel *k, int64_t for_ns)
{
    return for_ns > LAW_TIME_END_NS - k->now_ns ? LAW_TIME_END_NS : k->now_ns + for_ns;
}

/* The memory of a heap (law/heap.h): a LawRealloc. */
static inline void *
heap_memory(void *Py_UNUSED(context), void *block, size_t bytes)
{
    return PyMem_Realloc(block, bytes);
}

/* The timers of one kernel. New reference, or NULL with MemoryError set. */
Timers *timers_new(ModuleState *st, Kernel *k);
/* Arm a timer under the next id. New reference, or NULL with an exception set: nothing is armed. */
Timer *timers_arm(ModuleState *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope);
/* The same under an id that was reserved before (CLEANUP-1 in cleanup.c). */
Timer *timers_arm_as(ModuleState *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task);
int timers_disarm(Timers *timers, Timer *timer);       /* idempotent; -1 only if the observer failed */
Timer *timers_first(const Timers *timers);             /* borrowed, or NULL */
Timer *timers_pop_due(Timers *timers, int64_t now_ns); /* new reference, disarmed and without a note; or NULL */
