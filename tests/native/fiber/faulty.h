/* A table of system calls that counts calls and makes chosen ones fail; the others reach the real kernel. */

#ifndef TESTS_NATIVE_FIBER_FAULTY_H
#define TESTS_NATIVE_FIBER_FAULTY_H

#include "world.h"

#include <sys/mman.h>

struct faulty {
    struct stack_system system;
    unsigned calls;      /* so far, except `readable` */
    unsigned fail_at;    /* the number of the call to fail; 0: none */
    unsigned fail_count; /* how many calls fail from there on */
    int error;           /* the errno of these failures */
    bool no_batches;     /* advise_many: ENOSYS */
    bool no_guards;      /* MADV_GUARD_INSTALL: EINVAL */
    bool deaf;           /* MADV_GUARD_INSTALL: accepted, not followed */
    bool no_forbid;      /* mprotect: ENOMEM */
    size_t mapped_bytes;
    unsigned advised, batches;
};

static bool
faulty_fails(struct faulty *faulty)
{
    faulty->calls++;
    if (faulty->fail_at != 0 && faulty->calls >= faulty->fail_at &&
        faulty->calls < faulty->fail_at + faulty->fail_count) {
        errno = faulty->error;
        return true;
    }
    return false;
}

static void *
faulty_map(void *context, size_t bytes)
{
    struct faulty *faulty = context;
    if (faulty_fails(faulty)) {
        return NULL;
    }
    void *base = stack_system_linux.map(NULL, bytes);
    faulty->mapped_bytes += base != NULL ? bytes : 0;
    return base;
}

static int
faulty_unmap(void *context, void *base, size_t bytes)
{
    struct faulty *faulty = context;
    if (faulty_fails(faulty)) {
        return -1;
    }
    faulty->mapped_bytes -= bytes;
    return stack_system_linux.unmap(NULL, base, bytes);
}

static int
faulty_advise(void *context, void *base, size_t bytes, int advice)
{
    struct faulty *faulty = context;
    if (faulty_fails(faulty)) {
        return -1;
    }
    faulty->advised++;
    if (advice == MADV_GUARD_INSTALL && faulty->no_guards) {
        errno = EINVAL;
        return -1;
    }
    return advice == MADV_GUARD_INSTALL && faulty->deaf ? 0 : stack_system_linux.advise(NULL, base, bytes, advice);
}

static ssize_t
faulty_advise_many(void *context, const struct iovec *ranges, size_t count, int advice)
{
    struct faulty *faulty = context;
    if (faulty_fails(faulty)) {
        return -1;
    }
    faulty->batches++;
    if (faulty->no_batches || faulty->no_guards) {
        errno = ENOSYS;
        return -1;
    }
    if (advice == MADV_GUARD_INSTALL && faulty->deaf) {
        return (ssize_t)(count * ranges[0].iov_len);
    }
    return stack_system_linux.advise_many(NULL, ranges, count, advice);
}

static int
faulty_forbid(void *context, void *base, size_t bytes)
{
    struct faulty *faulty = context;
    if (faulty_fails(faulty)) {
        return -1;
    }
    if (faulty->no_forbid) {
        errno = ENOMEM;
        return -1;
    }
    return stack_system_linux.forbid(NULL, base, bytes);
}

static bool
faulty_readable(void *context, const void *byte)
{
    (void)context;
    return stack_system_linux.readable(NULL, byte);
}

static inline void
faulty_init(struct faulty *faulty)
{
    memset(faulty, 0, sizeof *faulty);
    faulty->system = (struct stack_system){
        .context = faulty,
        .map = faulty_map,
        .unmap = faulty_unmap,
        .advise = faulty_advise,
        .advise_many = faulty_advise_many,
        .forbid = faulty_forbid,
        .readable = faulty_readable,
    };
    faulty->error = ENOMEM;
    faulty->fail_count = 1;
}

/* Whether this kernel has guards by advice; without them, some tests have nothing to test. */
static inline bool
kernel_has_guards(void)
{
    struct world world;
    world_begin(&world, NULL);
    stack_cache_put(&world.cache, stack_cache_get(&world.cache, 0));
    bool has = world_statistics(&world).rung == STACK_GUARD_ADVICE;
    world_end(&world);
    return has;
}

#endif
