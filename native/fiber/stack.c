/* The pool of stacks and its caches: see stack.h. arena.c cuts the slots, guard.c guards them.
 *
 * The pool's lock guards every depot. Guards are installed without the lock: newly cut stacks belong to their worker until
 * then, and other workers need not wait for the kernel. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/stack.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fiber/arena.h"
#include "fiber/guard.h"

#define ARENA_BYTES_MIN ((size_t)1 << 20)

unsigned
stack_class(size_t bytes)
{
    unsigned class = 0;
    while (class < STACK_CLASSES && STACK_BYTES_MIN << class < bytes) {
        class++;
    }
    return class;
}

int
stack_pool_init(struct stack_pool *pool, const struct stack_options *options)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct stack_options o = options == NULL ? (struct stack_options){0} : *options;
    o.forbidden_max = o.forbidden_max == 0 ? STACK_FORBIDDEN_MAX : o.forbidden_max;
    o.arena_bytes = o.arena_bytes == 0 ? STACK_ARENA_BYTES : o.arena_bytes;
    o.guard_bytes = o.guard_bytes == 0 ? page_bytes : o.guard_bytes;
    o.system = o.system == NULL ? &stack_system_linux : o.system;
    bool power = (o.arena_bytes & (o.arena_bytes - 1)) == 0;
    if (!power || o.arena_bytes < ARENA_BYTES_MIN || o.guard_bytes % page_bytes != 0 ||
        o.guard_bytes > o.arena_bytes / 16 || o.guard > STACK_GUARD_CANARY) {
        return EINVAL;
    }
    memset(pool, 0, sizeof *pool);
    pool->options = o;
    atomic_init(&pool->rung, (int)o.guard);
    return pthread_mutex_init(&pool->lock, NULL);
}

/* Puts a list of `count` stacks, not empty, into the depot as one magazine. Under the lock. */
static void
depot_put(struct stack_depot *depot, struct stack *list, uint32_t count)
{
    list->loaded = (uint16_t)count;
    list->magazine = depot->magazines;
    depot->magazines = list;
    depot->pooled += count;
}

/* The magazine that was put last, or NULL. Under the lock. */
static struct stack *
depot_take(struct stack_depot *depot)
{
    struct stack *list = depot->magazines;
    if (list != NULL) {
        depot->magazines = list->magazine;
        depot->pooled -= list->loaded;
    }
    return list;
}

static struct stack *
bare_take(struct stack_depot *depot, uint32_t count)
{
    struct stack *list = NULL;
    while (count-- > 0 && depot->bare != NULL) {
        struct stack *stack = depot->bare;
        depot->bare = stack->next;
        depot->bare_count--;
        stack->next = list;
        list = stack;
    }
    return list;
}

static void
bare_put(struct stack_depot *depot, struct stack *list)
{
    while (list != NULL) {
        struct stack *stack = list;
        list = stack->next;
        stack->next = depot->bare;
        depot->bare = stack;
        depot->bare_count++;
    }
}

/* Up to `count` unused slots, without guards. NULL and errno if no arena can be mapped. Under the lock. */
static struct stack *
pool_cut(struct stack_pool *pool, unsigned class, uint32_t count)
{
    struct stack_depot *depot = &pool->depots[class];
    struct stack *list = bare_take(depot, count);
    if (list != NULL) {
        return list;
    }
    struct arena *arena = depot->arenas;
    if (arena == NULL || atomic_load(&arena->cut) == arena->count) {
        arena = arena_map(pool, class);
        if (arena == NULL) {
            return NULL;
        }
        arena->next = depot->arenas;
        depot->arenas = arena;
        pool->arenas++;
        pool->mapped_bytes += arena->bytes;
    }
    uint32_t before = atomic_load(&arena->cut);
    list = arena_cut(arena, count);
    pool->cut += atomic_load(&arena->cut) - before;
    return list;
}

/* A magazine for a cache: a pooled one, or a new one. On failure NULL, and an errno in `*error`. */
static struct stack *
pool_take(struct stack_pool *pool, unsigned class, int *error)
{
    struct stack_depot *depot = &pool->depots[class];
    pthread_mutex_lock(&pool->lock);
    struct stack *list = depot_take(depot);
    if (list != NULL) {
        pthread_mutex_unlock(&pool->lock);
        return list;
    }
    list = pool_cut(pool, class, stack_magazine_size(class));
    *error = list == NULL ? errno : 0;
    pthread_mutex_unlock(&pool->lock);
    if (list == NULL) {
        return NULL;
    }
    *error = guard_install(pool, list);
    if (*error != 0) {
        pthread_mutex_lock(&pool->lock);
        bare_put(depot, list);
        pthread_mutex_unlock(&pool->lock);
        return NULL;
    }
    list->loaded = 0;
    for (struct stack *stack = list; stack != NULL; stack = stack->next) {
        list->loaded++;
    }
    return list;
}

static void
pool_put(struct stack_pool *pool, unsigned class, struct stack *list, uint32_t count)
{
    if (count > 0) {
        pthread_mutex_lock(&pool->lock);
        depot_put(&pool->depots[class], list, count);
        pthread_mutex_unlock(&pool->lock);
    }
}

static uint32_t
get(const _Atomic uint32_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void
set(_Atomic uint32_t *count, uint32_t value)
{
    atomic_store_explicit(count, value, memory_order_relaxed);
}

struct stack *
stack_cache_refill(struct stack_cache *cache, unsigned class)
{
    struct stack_magazines *m = &cache->magazines[class];
    if (m->second != NULL) {
        m->loaded = m->second;
        set(&m->loaded_count, get(&m->second_count));
        m->second = NULL;
        set(&m->second_count, 0);
    } else {
        struct stack *list = pool_take(cache->pool, class, &cache->error);
        if (list == NULL) {
            return NULL;
        }
        m->loaded = list;
        set(&m->loaded_count, list->loaded);
    }
    return stack_cache_get(cache, class);
}

void
stack_cache_spill(struct stack_cache *cache, unsigned class)
{
    struct stack_magazines *m = &cache->magazines[class];
    pool_put(cache->pool, class, m->second, get(&m->second_count));
    m->second = m->loaded;
    set(&m->second_count, get(&m->loaded_count));
    m->loaded = NULL;
    set(&m->loaded_count, 0);
}

void
stack_cache_init(struct stack_cache *cache, struct stack_pool *pool)
{
    memset(cache, 0, sizeof *cache);
    cache->pool = pool;
    pthread_mutex_lock(&pool->lock);
    cache->next = pool->caches;
    cache->link = &pool->caches;
    if (cache->next != NULL) {
        cache->next->link = &cache->next;
    }
    pool->caches = cache;
    pthread_mutex_unlock(&pool->lock);
}

void
stack_cache_flush(struct stack_cache *cache)
{
    for (unsigned class = 0; class < STACK_CLASSES; class++) {
        struct stack_magazines *m = &cache->magazines[class];
        stack_cache_spill(cache, class); /* second to the pool, loaded becomes second */
        stack_cache_spill(cache, class);
        assert(m->loaded == NULL && m->second == NULL);
    }
}

void
stack_cache_close(struct stack_cache *cache)
{
    struct stack_pool *pool = cache->pool;
    stack_cache_flush(cache);
    pthread_mutex_lock(&pool->lock);
    *cache->link = cache->next;
    if (cache->next != NULL) {
        cache->next->link = cache->link;
    }
    pthread_mutex_unlock(&pool->lock);
    cache->pool = NULL;
}

void
stack_cache_retire(struct stack_cache *cache, struct stack *stack)
{
    struct stack_pool *pool = cache->pool;
    stack->condemned = true; /* STACK-7 */
    stack->next = NULL;
    pthread_mutex_lock(&pool->lock);
    stack->arena->retired++;
    pool->retired++;
    (void)guard_release_memory(pool, stack); /* a refusal is counted, and costs memory only */
    pthread_mutex_unlock(&pool->lock);
}

void
stack_pool_statistics(struct stack_pool *pool, struct stack_statistics *out)
{
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&pool->lock);
    out->arenas = pool->arenas;
    out->mapped_bytes = pool->mapped_bytes;
    out->stacks = pool->cut;
    out->retired = pool->retired;
    out->trimmed_bytes = pool->trimmed_bytes;
    out->failures = atomic_load(&pool->failures);
    out->rung = (enum stack_guard)atomic_load(&pool->rung);
    for (unsigned guard = 0; guard < 3; guard++) {
        out->guards[guard] = atomic_load(&pool->guards[guard]);
    }
    for (unsigned class = 0; class < STACK_CLASSES; class++) {
        out->pooled += pool->depots[class].pooled;
        out->bare += pool->depots[class].bare_count;
        for (struct stack_cache *cache = pool->caches; cache != NULL; cache = cache->next) {
            out->cached += get(&cache->magazines[class].loaded_count) + get(&cache->magazines[class].second_count);
        }
    }
    uint64_t idle = out->pooled + out->bare + out->cached + out->retired;
    out->in_use = out->stacks > idle ? out->stacks - idle : 0;
    pthread_mutex_unlock(&pool->lock);
}

/* Only the bytes next to the limit: a frame that overruns the stack writes them first. */
bool
stack_canary_whole(const struct stack *stack)
{
    const uint64_t *words = (const uint64_t *)(const void *)(stack->limit - STACK_CANARY_BYTES);
    uint64_t found = 0;
    for (size_t i = 0; i < STACK_CANARY_BYTES / sizeof *words; i++) {
        found |= words[i];
    }
    return found == 0;
}
