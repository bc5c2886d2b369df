/* Trimming, closing, shedding: see trim.h. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/trim.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber/arena.h"
#include "fiber/guard.h"
#include "hints.h"

/* Takes all magazines apart into one list. */
static struct stack *
flatten(struct stack_depot *depot)
{
    struct stack *flat = NULL;
    for (struct stack *magazine = depot->magazines, *following; magazine != NULL; magazine = following) {
        following = magazine->magazine;
        for (struct stack *stack = magazine, *next; stack != NULL; stack = next) {
            next = stack->next;
            stack->next = flat;
            flat = stack;
        }
    }
    depot->magazines = NULL;
    depot->pooled = 0;
    return flat;
}

/* Makes magazines of the class's size out of a list. */
static void
regroup(struct stack_depot *depot, unsigned class, struct stack *flat)
{
    while (flat != NULL) {
        struct stack *first = flat, *last = flat;
        uint16_t count = 1;
        while (last->next != NULL && count < stack_magazine_size(class)) {
            last = last->next;
            count++;
        }
        flat = last->next;
        last->next = NULL;
        first->loaded = count;
        first->magazine = depot->magazines;
        depot->magazines = first;
        depot->pooled += count;
    }
}

/* Removes from a list the stacks of arenas in which all stacks are idle. */
static struct stack *
without_idle_arenas(struct stack *list)
{
    struct stack *kept = NULL;
    for (struct stack *next; list != NULL; list = next) {
        next = list->next;
        if (list->arena->idle != atomic_load(&list->arena->cut)) {
            list->next = kept;
            kept = list;
        }
    }
    return kept;
}

/* Puts all stacks of an arena that could not be unmapped back into their lists. */
static struct stack *
put_back(struct stack_depot *depot, struct arena *arena, struct stack *flat)
{
    for (uint32_t i = 0; i < atomic_load(&arena->cut); i++) {
        struct stack *stack = &arena->stacks[i];
        if (stack->condemned) {
            continue;
        }
        struct stack **list = stack->bare ? &depot->bare : &flat;
        depot->bare_count += stack->bare;
        stack->next = *list;
        *list = stack;
    }
    return flat;
}

/* Unmaps an arena and subtracts it from the counts. Its stacks are in no list. */
static int
arena_give_back(struct stack_pool *pool, struct arena *arena)
{
    uint32_t cut = atomic_load(&arena->cut);
    size_t bytes = arena->bytes;
    uint32_t retired = arena->retired;
    uint64_t guards[3] = {0};
    for (uint32_t i = 0; i < cut; i++) {
        if (!arena->stacks[i].bare) {
            guards[arena->stacks[i].guard]++;
        }
        SANITIZE(sanitize_end(&arena->stacks[i].here);)
    }
    int error = arena_unmap(arena);
    if (error != 0) {
        return error;
    }
    guard_forget(pool, guards);
    pool->arenas--;
    pool->mapped_bytes -= bytes;
    pool->cut -= cut;
    pool->retired -= retired;
    return 0;
}

static int
trim_class(struct stack_pool *pool, unsigned class)
{
    struct stack_depot *depot = &pool->depots[class];
    for (struct arena *arena = depot->arenas; arena != NULL; arena = arena->next) {
        arena->idle = arena->retired;
    }
    struct stack *flat = flatten(depot);
    for (struct stack *stack = flat; stack != NULL; stack = stack->next) {
        stack->arena->idle++;
    }
    for (struct stack *stack = depot->bare; stack != NULL; stack = stack->next) {
        stack->arena->idle++;
    }
    flat = without_idle_arenas(flat);
    depot->bare = without_idle_arenas(depot->bare);
    depot->bare_count = 0;
    for (struct stack *stack = depot->bare; stack != NULL; stack = stack->next) {
        depot->bare_count++;
    }
    int first_error = guard_release_memory(pool, flat);
    struct arena **link = &depot->arenas;
    for (struct arena *arena, *next; (arena = *link) != NULL;) {
        next = arena->next;
        if (arena->idle != atomic_load(&arena->cut)) {
            link = &arena->next;
            continue;
        }
        int error = arena_give_back(pool, arena);
        if (error == 0) {
            *link = next;
            continue;
        }
        first_error = first_error == 0 ? error : first_error;
        flat = put_back(depot, arena, flat); /* TRIM-1 */
        link = &arena->next;
    }
    regroup(depot, class, flat);
    return first_error;
}

int
stack_pool_trim(struct stack_pool *pool)
{
    int first_error = 0;
    pthread_mutex_lock(&pool->lock);
    for (unsigned class = 0; class < STACK_CLASSES; class++) {
        int error = trim_class(pool, class);
        first_error = first_error == 0 ? error : first_error;
    }
    pthread_mutex_unlock(&pool->lock);
    return first_error;
}

NOINLINE void
stack_shed(struct stack *stack)
{
    struct stack_pool *pool = stack->arena->pool;
    const struct stack_system *system = pool->options.system;
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t kept = ((uintptr_t)__builtin_frame_address(0) - STACK_SHED_KEEPS_BYTES) / page_bytes * page_bytes;
    uintptr_t limit = (uintptr_t)stack->limit;
    if (kept > limit && system->advise(system->context, stack->limit, kept - limit, MADV_DONTNEED) != 0) {
        atomic_fetch_add(&pool->failures, 1);
    }
}

/* If no stack is in use, all arenas are idle: so a trim unmaps all of them. */
int
stack_pool_close(struct stack_pool *pool)
{
    struct stack_statistics now;
    stack_pool_statistics(pool, &now);
    if (pool->caches != NULL || now.in_use != 0) {
        return EBUSY;
    }
    int error = stack_pool_trim(pool);
    return pool->arenas != 0 ? error : pthread_mutex_destroy(&pool->lock);
}
