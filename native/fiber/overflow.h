/* Overflow: who runs into its guard ends as panicked; the process goes on.
 *
 * The guard of a stack faults. The handler, on the thread's alternate signal stack, finds from the faulting
 * address the arena, the slot and its owner; if the interrupted code stood on that very stack, it ends the owner
 * and makes the interrupted context continue where the owner was resumed or called from. The kernel's return
 * from the signal does the rest: signal mask and all.
 *
 * Every other fault is somebody else's, and goes to the handler that was there before, or kills the process
 * with the signal, as it should: a wild pointer is not an overflow, even if it points into a guard.
 *
 * The handler uses no thread-local storage; what it must know is in the arenas' registry and in two static
 * records of the handlers that were there before: signals are the process's, not a pool's.
 *
 * The contracts are OVERFLOW-1 to OVERFLOW-6 in INVARIANTS.md. */

#pragma once

#include <signal.h>
#include <stddef.h>

#include "fiber/system.h"

/* Installs the handlers for SIGSEGV and SIGBUS, or counts one more user of them. 0, or an errno. */
int overflow_install(void);

/* One user less. The last one puts the former handlers back, unless somebody has installed others on top of ours:
 * then ours stay, because those others may call them. */
void overflow_remove(void);

/* A thread that runs fibers needs an alternate signal stack: on an overflown one no handler can run. */
struct overflow_thread {
    stack_t former; /* what the thread had */
    void *base;     /* NULL: that was big enough */
    size_t bytes;
    const struct stack_system *system;
};

/* For the calling thread. 0, or an errno; then fibers can run here, but an overflow kills the process. The memory
 * comes from `system`, NULL for the kernel. */
int overflow_thread_enter(struct overflow_thread *thread, const struct stack_system *system);

/* Undoes it, on the same thread. */
void overflow_thread_leave(struct overflow_thread *thread);
