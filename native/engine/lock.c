/* The slow halves of a lock: see lock.h. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* syscall */
#endif

#include "engine/lock.h"

#include <sched.h>

#if defined(__linux__)
#  include <linux/futex.h>
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#define SPINS_MAX 64 /* about as long as the longest code that holds a lock on the usual paths */

void
lock_wait(Lock *lock)
{
    for (int spin = 0; spin < SPINS_MAX; spin++) {
        uint32_t seen = 0;
        if (load_u32(&lock->word, RELAXED) == 0 && cas_u32(&lock->word, &seen, 1, ACQUIRE)) {
            return;
        }
        cpu_relax();
    }
    while (swap_u32(&lock->word, 2, ACQUIRE) != 0) {
#if defined(__linux__)
        syscall(SYS_futex, &lock->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
#else
        sched_yield();
#endif
    }
}

void
lock_wake(Lock *lock)
{
#if defined(__linux__)
    syscall(SYS_futex, &lock->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
#else
    (void)lock;
#endif
}
