/* Installing guards: see guard.h. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/guard.h"

#include <errno.h>
#include <sys/mman.h>

#include "fiber/arena.h"

/* Guards by mprotect in the whole process: mappings are counted per process, not per pool. */
static _Atomic uint32_t forbidden;

/* No errno has this value. */
#define STEP_DOWN (-1)

static int
refused(struct stack_pool *pool)
{
    int error = errno;
    atomic_fetch_add(&pool->failures, 1);
    return error;
}

/* Advises all ranges, which have equal length: in one system call, and one by one where that fails. */
static int
advise_all(struct stack_pool *pool, const struct iovec *ranges, size_t count, int advice)
{
    const struct stack_system *system = pool->options.system;
    if (count == 0) {
        return 0;
    }
    ssize_t bytes = count == 1 ? -1 : system->advise_many(system->context, ranges, count, advice);
    size_t done = bytes < 0 ? 0 : (size_t)bytes / ranges[0].iov_len;
    for (; done < count; done++) {
        if (system->advise(system->context, ranges[done].iov_base, ranges[done].iov_len, advice) != 0) {
            return refused(pool);
        }
    }
    return 0;
}

static void
guarded(struct stack_pool *pool, struct stack *stack, enum stack_guard guard)
{
    stack->guard = (uint8_t)guard;
    stack->bare = false;
    atomic_fetch_add_explicit(&pool->guards[guard], 1, memory_order_relaxed);
}

static int
guard_by_advice(struct stack_pool *pool, struct stack *list)
{
    const struct stack_system *system = pool->options.system;
    struct iovec ranges[STACK_MAGAZINE];
    size_t count = 0;
    for (struct stack *stack = list; stack != NULL; stack = stack->next) {
        if (stack->bare) {
            ranges[count].iov_base = arena_slot(stack);
            ranges[count++].iov_len = pool->options.guard_bytes;
        }
    }
    int error = advise_all(pool, ranges, count, MADV_GUARD_INSTALL);
    if (error == EINVAL || error == ENOSYS) {
        return STEP_DOWN;
    }
    if (error != 0) {
        return error;
    }
    if (count > 0 && system->readable(system->context, ranges[count - 1].iov_base)) {
        return STEP_DOWN;
    }
    for (struct stack *stack = list; stack != NULL; stack = stack->next) {
        if (stack->bare) {
            guarded(pool, stack, STACK_GUARD_ADVICE);
        }
    }
    return 0;
}

/* ENOMEM ends this kind of guard too: the kernel returns it when there are too many mappings. */
static int
guard_by_forbidding(struct stack_pool *pool, struct stack *list)
{
    const struct stack_system *system = pool->options.system;
    for (struct stack *stack = list; stack != NULL; stack = stack->next) {
        if (!stack->bare) {
            continue;
        }
        if (atomic_fetch_add(&forbidden, 1) >= pool->options.forbidden_max) {
            atomic_fetch_sub(&forbidden, 1);
            return STEP_DOWN;
        }
        if (system->forbid(system->context, arena_slot(stack), pool->options.guard_bytes) != 0) {
            atomic_fetch_sub(&forbidden, 1);
            int error = refused(pool);
            return error == ENOMEM || error == ENOSYS ? STEP_DOWN : error;
        }
        guarded(pool, stack, STACK_GUARD_FORBID);
    }
    return 0;
}

static void
guard_by_canary(struct stack_pool *pool, struct stack *list)
{
    for (struct stack *stack = list; stack != NULL; stack = stack->next) {
        if (stack->bare) {
            guarded(pool, stack, STACK_GUARD_CANARY);
        }
    }
}

int
guard_install(struct stack_pool *pool, struct stack *list)
{
    int error = STEP_DOWN;
    while (error == STEP_DOWN) {
        int rung = atomic_load(&pool->rung);
        switch (rung) {
        case STACK_GUARD_ADVICE:
            error = guard_by_advice(pool, list);
            break;
        case STACK_GUARD_FORBID:
            error = guard_by_forbidding(pool, list);
            break;
        default:
            guard_by_canary(pool, list);
            return 0;
        }
        if (error == STEP_DOWN) {
            atomic_compare_exchange_strong(&pool->rung, &rung, rung + 1); /* another worker may have been first */
        }
    }
    return error;
}

int
guard_release_memory(struct stack_pool *pool, struct stack *list)
{
    int first_error = 0;
    while (list != NULL) {
        struct iovec ranges[STACK_MAGAZINE];
        size_t count = 0;
        for (; list != NULL && count < STACK_MAGAZINE; list = list->next) {
            ranges[count].iov_base = list->limit;
            ranges[count++].iov_len = list->arena->slot_bytes - pool->options.guard_bytes;
        }
        int error = advise_all(pool, ranges, count, MADV_DONTNEED);
        if (error == 0) {
            pool->trimmed_bytes += count * ranges[0].iov_len;
        } else if (first_error == 0) {
            first_error = error;
        }
    }
    return first_error;
}

void
guard_forget(struct stack_pool *pool, const uint64_t guards[3])
{
    atomic_fetch_sub(&forbidden, (uint32_t)guards[STACK_GUARD_FORBID]);
    for (unsigned guard = 0; guard < 3; guard++) {
        atomic_fetch_sub(&pool->guards[guard], guards[guard]);
    }
}
