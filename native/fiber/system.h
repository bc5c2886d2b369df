/* The system calls that stacks make, in one table of functions.
 *
 * It is a table so that a test can make every call fail in turn. The code that fills a table owns it;
 * `stack_system_linux` is the real one. Each function returns what the system call of its name returns, with `errno`
 * set on failure. `context` is the table's own field, and the first argument of each function.
 *
 * SYSTEM-1  all code in this folder maps, unmaps, advises and protects memory through such a table. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef MADV_GUARD_INSTALL
#  define MADV_GUARD_INSTALL 102 /* Linux 6.13; the C library's headers are often older than the kernel */
#endif

struct stack_system {
    void *context;

    /* Returns `bytes` of private, zeroed memory that is not yet backed, or NULL. */
    void *(*map)(void *context, size_t bytes);
    /* Returns 0, or -1. */
    int (*unmap)(void *context, void *base, size_t bytes);
    /* madvise. Returns 0, or -1. */
    int (*advise)(void *context, void *base, size_t bytes, int advice);
    /* process_madvise on this process. Returns how many bytes, counted from the first range, were advised, or -1. */
    ssize_t (*advise_many)(void *context, const struct iovec *ranges, size_t count, int advice);
    /* Takes all access away. Returns 0, or -1. */
    int (*forbid)(void *context, void *base, size_t bytes);
    /* Whether a byte can be read, without a fault: emulators accept advice that they do not follow. */
    bool (*readable)(void *context, const void *byte);
};

extern const struct stack_system stack_system_linux;
