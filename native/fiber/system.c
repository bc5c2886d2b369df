/* The system calls of Linux: see system.h. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/system.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#  define SYS_pidfd_open 434 /* the same number on every machine */
#endif
#ifndef SYS_process_madvise
#  define SYS_process_madvise 440
#endif

/* No swap is reserved: a million stacks are 32 GiB of addresses and 4 GiB of memory. */
static void *
linux_map(void *context, size_t bytes)
{
    (void)context;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static int
linux_unmap(void *context, void *base, size_t bytes)
{
    (void)context;
    return munmap(base, bytes);
}

static int
linux_advise(void *context, void *base, size_t bytes, int advice)
{
    (void)context;
    return madvise(base, bytes, advice);
}

/* The descriptor is opened for each call: a descriptor that was kept would mean the parent after a fork. */
static ssize_t
linux_advise_many(void *context, const struct iovec *ranges, size_t count, int advice)
{
    (void)context;
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0) {
        return -1;
    }
    ssize_t bytes = syscall(SYS_process_madvise, self, ranges, count, advice, 0);
    int error = errno;
    close(self);
    errno = error;
    return bytes;
}

static int
linux_forbid(void *context, void *base, size_t bytes)
{
    (void)context;
    return mprotect(base, bytes, PROT_NONE);
}

/* access() fails with EFAULT if the kernel cannot read the name; any other result means that it could. */
static bool
linux_readable(void *context, const void *byte)
{
    (void)context;
    int error = errno;
    bool readable = access(byte, F_OK) == 0 || errno != EFAULT;
    errno = error;
    return readable;
}

const struct stack_system stack_system_linux = {
    .context = NULL,
    .map = linux_map,
    .unmap = linux_unmap,
    .advise = linux_advise,
    .advise_many = linux_advise_many,
    .forbid = linux_forbid,
    .readable = linux_readable,
};
