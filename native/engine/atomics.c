/* The heavy side of the asymmetric fence, by membarrier(2): see atomics.h.
 *
 * A worker goes to sleep rarely, and that is slow anyway; pushing a task is frequent and fast. So the sleeper pays for
 * the order of both sides. Rejected: a fence after each push (5 ns, for a push that costs 2 ns); mprotect tricks, which
 * order only by accident and differ between processors.
 */
#define _GNU_SOURCE /* syscall */

#include "engine/atomics.h"

#if defined(__linux__) && !defined(BURSAR_EXPLORE)
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#if defined(__linux__) && !defined(BURSAR_EXPLORE) && defined(SYS_membarrier)

/* From linux/membarrier.h, which is missing on some older systems that do have the call. */
enum {
    MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3,
    MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4,
};

bool
fence_asymmetric(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void
fence_heavy(bool asymmetric)
{
    fence_seq_cst();
    if (asymmetric) {
        /* The process is registered, so only a lack of memory in the kernel can make the call fail. Then try again. */
        while (syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) != 0) {
            cpu_relax();
        }
    }
}

#elif defined(BURSAR_EXPLORE)

bool
fence_asymmetric(void)
{
    return true;
}

void
fence_heavy(bool asymmetric)
{
    if (asymmetric) {
        explore_fence_all();
    } else {
        explore_fence();
    }
}

#else

bool
fence_asymmetric(void)
{
    return false;
}

void
fence_heavy(bool asymmetric)
{
    (void)asymmetric;
    fence_seq_cst();
}

#endif
