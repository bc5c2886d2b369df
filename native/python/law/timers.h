/* Timers (timers.c): arming, disarming and firing them. After law/timers.py.
 *
 * Operations, timeouts, cleanup and tickets arm timers. Firing queues tasks and never polls one.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec timer_spec, timers_spec; /* timers_py.c */

/* The deadline that is `for_ns` from now, at most `TIME_END_NS`. */
static inline int64_t
k_deadline(const Kernel *k, int64_t for_ns)
{
    return for_ns > LAW_TIME_END_NS - k->now_ns ? LAW_TIME_END_NS : k->now_ns + for_ns;
}

/* The allocator of a heap (law/heap.h): a LawRealloc. */
static inline void *
heap_memory(void *Py_UNUSED(context), void *block, size_t bytes)
{
    return PyMem_Realloc(block, bytes);
}

/* The empty timers of one kernel, which is borrowed: the kernel sets `timers->kernel` to NULL when it ends. New
 * reference, or NULL with MemoryError set. */
Timers *timers_new(ModuleState *st, Kernel *k);
/* Arm a timer for the current poll of `task`; `scope` may be NULL. New reference. NULL with an exception set: there
 * is no memory and nothing has changed (HEAP-3), or the observer of timers without a kernel failed and the timer is
 * armed. */
Timer *timers_arm(ModuleState *st, Timers *timers, int64_t deadline_ns, int kind, Task *task, PyObject *scope);
/* The same with an id that was taken before (CLEANUP-1 in cleanup.c), and without a scope. */
Timer *timers_arm_as(ModuleState *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task);
/* Disarm a timer. Idempotent: a timer that fired or was disarmed before stays as it is. 0, or -1 with an exception set:
 * the timer is armed in another heap, or the observer of timers without a kernel failed and the timer is disarmed. */
int timers_disarm(Timers *timers, Timer *timer);
/* The timer that is due first, borrowed; NULL if no timer is armed. */
Timer *timers_first(const Timers *timers);
/* Disarm and return the next due timer, without an event: new reference; NULL, with no exception set, if none is
 * due. */
Timer *timers_pop_due(Timers *timers, int64_t now_ns);

/* Methods of the kernel, for kernel_py.c. */
/* advance(now_ns, most=None): set the time and fire the due timers, at most `most`. Returns how many fired. */
PyObject *kernel_advance(Kernel *k, PyObject *const *args, Py_ssize_t n);
/* _fire(timer): fire one timer that a host reports. */
PyObject *kernel_fire(Kernel *k, PyObject *timer);
