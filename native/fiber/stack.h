/* Stacks: one pool for all threads, and in front of it a cache per worker.
 *
 * A *stack* is a slot of an *arena*, a big mapping that is cut into slots of equal size. The description of a stack
 * (`struct stack`) is at the head of the arena and not in the slot. So an overflow cannot damage it, and the memory
 * of a free stack can be given back completely.
 *
 *     slot:   | guard | usable, grows downwards ...                    | colour |
 *             ^ slot  ^ limit                                        top ^
 *
 * The *colour* shifts the tops of neighbours by some cache lines. Without it, the hot frames of all stacks would use
 * the same sets of the first-level cache.
 *
 * Sizes are classes: class c guarantees STACK_BYTES_MIN << c usable bytes.
 *
 * A *cache* belongs to one thread at a time. It has at most two *magazines* per class: lists of free stacks, newest
 * first. The cache exchanges full and empty magazines with the pool's depot, under the pool's lock, so most
 * operations touch nothing shared. Free stacks keep their memory and their guard: the first touch of a page costs a
 * thousand times as much as a switch. trim.h gives memory back: on request, and below the frame of a fiber that
 * overflowed.
 *
 * Rejected: a mapping for each stack (8.6 µs each time); a lock-free shared list (every take would write a shared
 * cache line); one list per cache (giving half of it back means walking it).
 *
 * The contracts are STACK-1 to STACK-10 in INVARIANTS.md. */

#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fiber/sanitize.h"
#include "fiber/system.h"
#include "hints.h"

struct fiber;
struct arena;
struct stack_pool;

/* What class 0 guarantees: enough for plain C code, too little for stdio. With sanitizers the same code needs several
 * times as much. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define STACK_BYTES_MIN ((size_t)64 << 10)
#else
#  define STACK_BYTES_MIN ((size_t)8 << 10)
#endif

/* 8 KiB to 16 MiB: a task that needs more should be a thread. */
#define STACK_CLASSES 12

/* Stacks in a full magazine of class 0; each next class has half as many, at least one. Also the number of guards
 * that share one system call. */
#define STACK_MAGAZINE 64

/* Neighbours differ by 128 bytes, sixteen in turn: a parked fiber's frames still fit in the top page. */
#define STACK_COLOURS 16
#define STACK_COLOUR_BYTES ((size_t)128)

/* Room in addition to what a class guarantees, for fibers that are called above the frames of another one
 * (runner_call_above). It costs only addresses until it is used. */
#define STACK_ABOVE_BYTES ((size_t)8 << 10)

/* What an arena reserves by default: 4080 stacks of class 0. It costs only addresses; memory is used at the first
 * touch. */
#define STACK_ARENA_BYTES ((size_t)128 << 20)

/* Each guard made by mprotect costs two of the process's 65,530 mappings; this leaves some for the program. */
#define STACK_FORBIDDEN_MAX 30000u

/* The canary of a stack without a guard: this many bytes below its limit must be zero. Pages of zeros cost no
 * memory. */
#define STACK_CANARY_BYTES ((size_t)256)

/* How much stack a switch needs on the stack that it leaves. A fiber with less has overflowed. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define STACK_SWITCH_BYTES ((size_t)4 << 10)
#else
#  define STACK_SWITCH_BYTES ((size_t)512)
#endif

/* What stack_shed keeps below its own frame, for the calls that it makes. */
#define STACK_SHED_KEEPS_BYTES (4 * STACK_SWITCH_BYTES)

/* How an overflow is noticed. A pool tries these in this order. */
enum stack_guard {
    STACK_GUARD_ADVICE, /* MADV_GUARD_INSTALL: a fault at once, no mapping split */
    STACK_GUARD_FORBID, /* mprotect: a fault at once, up to STACK_FORBIDDEN_MAX per process */
    STACK_GUARD_CANARY, /* noticed at the next switch, after the damage */
};

/* One stack. `next`, `magazine` and `loaded` belong to the pool; `owner` and `recover` to the code that runs on the
 * stack. */
struct stack {
    struct stack *next;     /* in a list of free stacks */
    struct stack *magazine; /* the first of a magazine: the next magazine in the depot */
    void *recover;          /* the context that continues after a panic on this stack (FIBER-3) */
    char *top;              /* where the first frame begins; 16-byte aligned (STACK-2) */
    char *limit;            /* lowest usable byte; the guard ends here */
    struct fiber *owner;    /* the fiber that runs or is parked here; NULL: none (OVERFLOW-2) */
    struct arena *arena;
    uint16_t loaded; /* the first of a magazine: how many it has */
    uint8_t class;   /* size class */
    uint8_t guard;   /* enum stack_guard */
    bool condemned;  /* its canary was hit: retire it when nothing runs on it (STACK-7) */
    bool bare;       /* has no guard yet: never handed out (STACK-3) */
    SANITIZE_STACK_FIELDS
};

struct stack_options {
    enum stack_guard guard;            /* the first kind of guard to try; 0 is the best one */
    unsigned forbidden_max;            /* 0: STACK_FORBIDDEN_MAX */
    size_t arena_bytes;                /* 0: STACK_ARENA_BYTES; otherwise a power of two, at least 1 MiB */
    size_t guard_bytes;                /* 0: one page; otherwise a multiple of the page size */
    const struct stack_system *system; /* NULL: stack_system_linux */
};

struct stack_depot {
    struct stack *magazines; /* full ones first in, last out */
    struct stack *bare;      /* cut but not guarded, because the kernel refused */
    struct arena *arenas;    /* newest first; only the first may have uncut slots */
    uint64_t pooled;         /* stacks in `magazines` */
    uint64_t bare_count;
};

struct stack_cache;

/* All fields are private; see the functions. */
struct stack_pool {
    pthread_mutex_t lock;
    struct stack_options options;
    _Atomic int rung; /* enum stack_guard: what the next new stack gets; only grows */
    struct stack_cache *caches;
    struct stack_depot depots[STACK_CLASSES];
    uint64_t arenas, mapped_bytes, cut, retired, trimmed_bytes;
    _Atomic uint64_t guards[3]; /* stacks by enum stack_guard */
    _Atomic uint64_t failures;
};

struct stack_magazines {
    struct stack *loaded; /* gets and puts go here, newest first */
    struct stack *second; /* full or empty */
    _Atomic uint32_t loaded_count, second_count;
};

/* One per worker. All fields are private. */
struct stack_cache {
    struct stack_pool *pool;
    struct stack_cache *next, **link;
    int error;
    struct stack_magazines magazines[STACK_CLASSES];
};

/* A snapshot. `in_use` is exact only while no worker runs. */
struct stack_statistics {
    uint64_t arenas, mapped_bytes;
    uint64_t stacks;                                /* cut so far and still there */
    uint64_t in_use, cached, pooled, bare, retired; /* together: stacks */
    uint64_t guards[3];                             /* stacks by enum stack_guard */
    uint64_t trimmed_bytes;                         /* addresses whose memory all trims together gave back */
    uint64_t failures;                              /* refused system calls, except advice about huge pages */
    enum stack_guard rung;                          /* what the next new stack gets */
};

/* The smallest class with `bytes` usable bytes; 0 bytes is class 0. STACK_CLASSES if there is none. */
unsigned stack_class(size_t bytes);

/* Makes an empty pool; maps nothing. Returns 0, EINVAL for options out of range, or the error of pthread_mutex_init. */
int stack_pool_init(struct stack_pool *pool, const struct stack_options *options);

/* May be called by any thread at any time while the pool exists. */
void stack_pool_statistics(struct stack_pool *pool, struct stack_statistics *out);

/* Makes an empty cache of the pool. Cannot fail. */
void stack_cache_init(struct stack_cache *cache, struct stack_pool *pool);

/* Gives all cached stacks to the pool; the cache stays usable. Only the owner of the cache may call this and the
 * functions below (STACK-4). */
void stack_cache_flush(struct stack_cache *cache);

/* Flushes the cache and detaches it from the pool. */
void stack_cache_close(struct stack_cache *cache);

/* The errno of the last stack_cache_get that returned NULL. */
static inline int
stack_cache_error(const struct stack_cache *cache)
{
    return cache->error;
}

/* The slow paths of get and put. */
struct stack *stack_cache_refill(struct stack_cache *cache, unsigned class);
void stack_cache_spill(struct stack_cache *cache, unsigned class);

/* How many stacks of a class make a full magazine. */
static inline uint32_t
stack_magazine_size(unsigned class)
{
    return class < 6 ? (uint32_t)STACK_MAGAZINE >> class : 1;
}

/* Returns a free, guarded stack of the class: the one that was put back last, if there is one. Returns NULL on
 * failure, and stack_cache_error says why. A failure changes and leaks nothing. */
static inline struct stack *
stack_cache_get(struct stack_cache *cache, unsigned class)
{
    struct stack_magazines *m = &cache->magazines[class];
    struct stack *stack = m->loaded;
    if (UNLIKELY(stack == NULL)) {
        return stack_cache_refill(cache, class);
    }
    m->loaded = stack->next;
    uint32_t count = atomic_load_explicit(&m->loaded_count, memory_order_relaxed);
    atomic_store_explicit(&m->loaded_count, count - 1, memory_order_relaxed);
    return stack;
}

/* Puts a stack back. No code may run on it any more, not even the caller (STACK-5). */
static inline void
stack_cache_put(struct stack_cache *cache, struct stack *stack)
{
    unsigned class = stack->class;
    struct stack_magazines *m = &cache->magazines[class];
    uint32_t count = atomic_load_explicit(&m->loaded_count, memory_order_relaxed);
    if (UNLIKELY(count >= stack_magazine_size(class))) {
        stack_cache_spill(cache, class);
        count = 0;
    }
    stack->next = m->loaded;
    m->loaded = stack;
    atomic_store_explicit(&m->loaded_count, count + 1, memory_order_relaxed);
}

/* Takes a stack out of use, because its canary was hit. No code may run on it, as for stack_cache_put. */
void stack_cache_retire(struct stack_cache *cache, struct stack *stack);

/* Whether the canary of a stack without a guard is intact. stack_sound is true for stacks with a guard. */
bool stack_canary_whole(const struct stack *stack);
static inline bool
stack_sound(const struct stack *stack)
{
    return LIKELY(stack->guard != STACK_GUARD_CANARY) || stack_canary_whole(stack);
}

/* How many bytes are left on `stack`, on which the caller runs. It reads the stack pointer where the machine is
 * known: for the address of its frame a function would need a frame pointer. */
static ALWAYS_INLINE size_t
stack_headroom(const struct stack *stack)
{
    char *here;
#if defined(__x86_64__)
    __asm__("movq %%rsp, %0" : "=r"(here));
#elif defined(__aarch64__)
    __asm__("mov %0, sp" : "=r"(here));
#else
    here = __builtin_frame_address(0);
#endif
    return (size_t)(here - stack->limit);
}
