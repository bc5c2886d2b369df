/* The few things that stacks ask of the kernel, behind one table of functions.
 *
 * A table and not direct calls, for one reason: a test can make every call fail in turn. The table is constant
 * and belongs to whoever fills it; `stack_system_linux` is the real one. Each function returns what the call of
 * the same name returns, with `errno` set on failure. `context` is the table's own field, handed through.
 *
 * SYSTEM-1  nothing in this folder maps, unmaps, advises or protects memory but through such a table. */

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

    /* `bytes` of private, zeroed memory that is not yet backed by anything, or NULL. */
    void *(*map)(void *context, size_t bytes);
    /* 0, or -1. */
    int (*unmap)(void *context, void *base, size_t bytes);
    /* madvise: 0, or -1. */
    int (*advise)(void *context, void *base, size_t bytes, int advice);
    /* process_madvise on this very process: how many bytes from the beginning were advised, or -1. */
    ssize_t (*advise_many)(void *context, const struct iovec *ranges, size_t count, int advice);
    /* Takes all access away: 0, or -1. */
    int (*forbid)(void *context, void *base, size_t bytes);
    /* Whether a byte can be read, found out without a fault: emulators accept advice that they do not follow. */
    bool (*readable)(void *context, const void *byte);
};

extern const struct stack_system stack_system_linux;
