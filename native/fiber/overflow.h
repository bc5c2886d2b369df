/* Overflow: a fiber that runs into its guard ends as panicked; the process continues.
 *
 * The guard of a stack faults. The handler runs on the thread's alternate signal stack. From the faulting address it
 * finds the arena, the slot and the owner of the stack. If the interrupted code ran on that same stack, the handler
 * ends the owner, and the interrupted context continues where the owner was resumed or called. The kernel's return
 * from the signal restores the rest, the signal mask included.
 *
 * Every other fault goes to the handler that was installed before, or kills the process with the signal. A wild
 * pointer is not an overflow, even if it points into a guard.
 *
 * The handler uses no thread-local storage. It needs only the registry of arenas, and two static records of the
 * handlers that were installed before: signal handlers belong to the process, not to a pool.
 *
 * The contracts are OVERFLOW-1 to OVERFLOW-6 in INVARIANTS.md. */

#pragma once

#include <signal.h>
#include <stddef.h>

#include "fiber/system.h"

/* Installs the handlers for SIGSEGV and SIGBUS, or counts one more user of them. Returns 0, or an errno. */
int overflow_install(void);

/* Counts one user less. After the last one it puts the former handlers back. But if other code has installed its
 * handlers meanwhile, ours stay, because those may call ours. */
void overflow_remove(void);

/* A thread that runs fibers needs an alternate signal stack: no handler can run on an overflown stack. */
struct overflow_thread {
    stack_t former; /* the alternate stack that the thread had */
    void *base;     /* NULL: the former one was big enough */
    size_t bytes;
    const struct stack_system *system;
};

/* Gives the calling thread an alternate signal stack. Returns 0, or an errno: then fibers can run on this thread, but
 * an overflow kills the process. The memory comes from `system`; NULL is stack_system_linux. */
int overflow_thread_enter(struct overflow_thread *thread, const struct stack_system *system);

/* Undoes overflow_thread_enter, on the same thread. */
void overflow_thread_leave(struct overflow_thread *thread);
