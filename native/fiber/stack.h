/* Stacks: a pool shared by all, and in front of it a cache per worker.
 *
 * A *stack* is a slot of an *arena*, one big mapping that is cut into slots of equal size. Its description
 * (`struct stack`) lies at the head of the arena and not in the slot: so an overflow or an overrun cannot
 * reach the books, and the memory of a free stack can be given back whole.
 *
 *     slot:   | guard | usable, grows downwards ...                    | colour |
 *             ^ slot  ^ limit                                        top ^
 *
 * The *colour* shifts the tops of neighbours by some cache lines; without it the hot frames of all stacks
 * would fall into the same sets of the first-level cache.
 *
 * Sizes are classes: class c guarantees STACK_BYTES_MIN << c usable bytes.
 *
 * A *cache* belongs to one thread at a time. It holds at most two *magazines* per class, lists of free stacks,
 * newest first; full and empty magazines are exchanged with the pool's depot under the pool's lock, so most
 * operations touch nothing shared. Free stacks keep their memory and their guard: the first touch of a page
 * costs a thousand times what a switch does. `stack_pool_trim` gives memory back when somebody asks; and a stack that was
 * used to its very end, by a fiber that overflowed, sheds what others rarely need (`stack_shed`).
 *
 * Rejected: mapping per stack (8.6 µs each time); a lock-free shared list (every take would write a shared
 * line); one list per cache (giving half of it back means walking it).
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

/* What class 0 guarantees: enough for plain C code, too little for stdio. Sanitizers need several times as much
 * for the same code. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define STACK_BYTES_MIN ((size_t)64 << 10)
#else
#  define STACK_BYTES_MIN ((size_t)8 << 10)
#endif

/* 8 KiB to 16 MiB: above the largest, a task wants a thread. */
#define STACK_CLASSES 12

/* Stacks in a full magazine of class 0; each next class has half as many, at least one. Also how many guards
 * are installed at once: 64 of them share one system call. */
#define STACK_MAGAZINE 64

/* Neighbours differ by 128 bytes, sixteen in turn: a parked fiber's frames still fit in the top page. */
#define STACK_COLOURS 16
#define STACK_COLOUR_BYTES ((size_t)128)

/* Room above what a class guarantees, for fibers that are called above the frames of another (runner_call_above). Only
 * addresses, as long as nobody goes there. */
#define STACK_ABOVE_BYTES ((size_t)8 << 10)

/* What an arena reserves by default: 4080 stacks of class 0. Only addresses; memory comes with the first touch. */
#define STACK_ARENA_BYTES ((size_t)128 << 20)

/* Each guard made by mprotect costs two of the process's 65,530 mappings; this leaves some for the program. */
#define STACK_FORBIDDEN_MAX 30000u

/* How many bytes under the limit an unguarded stack checks. They must be zero: so a canary costs no memory. */
#define STACK_CANARY_BYTES ((size_t)256)

/* What a switch needs of the stack that is left; whoever has less is over its end already. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define STACK_SWITCH_BYTES ((size_t)4 << 10)
#else
#  define STACK_SWITCH_BYTES ((size_t)512)
#endif

/* What is kept under the frame of whoever sheds: the calls that do it stand there. */
#define STACK_SHED_KEEPS_BYTES (4 * STACK_SWITCH_BYTES)

/* How an overflow is noticed; the ladder goes down in this order. */
enum stack_guard {
    STACK_GUARD_ADVICE, /* MADV_GUARD_INSTALL: a fault at once, no mapping split */
    STACK_GUARD_FORBID, /* mprotect: a fault at once, up to STACK_FORBIDDEN_MAX per process */
    STACK_GUARD_CANARY, /* noticed at the next switch, after the damage */
};

/* One stack. `next`, `magazine` and `loaded` are the pool's; `owner` and `recover` belong to whoever runs on it. */
struct stack {
    struct stack *next;     /* in a list of free stacks */
    struct stack *magazine; /* the first of a magazine: the next magazine in the depot */
    void *recover;          /* context that goes on when what runs here ends out of turn (FIBER-3) */
    char *top;              /* where the first frame begins; 16-byte aligned (STACK-2) */
    char *limit;            /* lowest usable byte; the guard ends here */
    struct fiber *owner;    /* who runs or is parked here; NULL: nobody that could be ended (OVERFLOW-2) */
    struct arena *arena;
    uint16_t loaded; /* the first of a magazine: how many it has */
    uint8_t class;   /* size class */
    uint8_t guard;   /* enum stack_guard */
    bool condemned;  /* its canary was hit: to be retired when left (STACK-7) */
    bool bare;       /* has no guard yet: never handed out (STACK-3) */
    SANITIZE_STACK_FIELDS
};

struct stack_options {
    enum stack_guard guard;            /* first rung of the ladder to try; 0 is the best one */
    unsigned forbidden_max;            /* 0: STACK_FORBIDDEN_MAX */
    size_t arena_bytes;                /* 0: STACK_ARENA_BYTES; else a power of two, at least 1 MiB */
    size_t guard_bytes;                /* 0: one page; else a multiple of the page size */
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
    _Atomic int rung; /* enum stack_guard: where on the ladder we are; only goes down */
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

/* A snapshot. `in_use` is exact when no worker runs, else as of slightly different moments. */
struct stack_statistics {
    uint64_t arenas, mapped_bytes;
    uint64_t stacks;                                /* cut so far and still there */
    uint64_t in_use, cached, pooled, bare, retired; /* together: stacks */
    uint64_t guards[3];                             /* stacks by enum stack_guard */
    uint64_t trimmed_bytes;                         /* address space whose memory trims have given back, in all */
    uint64_t failures;                              /* system calls that were refused, advice about huge pages apart */
    enum stack_guard rung;                          /* what the next new stack gets */
};

/* The smallest class with `bytes` usable bytes; 0 bytes is class 0. STACK_CLASSES if there is none: refuse. */
unsigned stack_class(size_t bytes);

/* Makes an empty pool; maps nothing. 0, or EINVAL for options out of range, or what pthread_mutex_init says. */
int stack_pool_init(struct stack_pool *pool, const struct stack_options *options);

/* Unmaps everything. 0; EBUSY if a cache is open or a stack in use, and then nothing has happened; or the error
 * of the first unmapping that failed, and then it can be called again. */
int stack_pool_close(struct stack_pool *pool);

/* Gives the memory of all pooled stacks back to the kernel (not of cached ones: flush the caches first).
 * Arenas that nobody uses are unmapped; elsewhere addresses and guards stay. Slow, holds the pool's lock.
 * 0, or the error of the first call that failed; the pool is sound either way. */
int stack_pool_trim(struct stack_pool *pool);

/* May be called by any thread at any time while the pool exists. */
void stack_pool_statistics(struct stack_pool *pool, struct stack_statistics *out);

/* Makes an empty cache of the pool. Cannot fail. */
void stack_cache_init(struct stack_cache *cache, struct stack_pool *pool);

/* Gives all that is cached to the pool; the cache stays usable. Only its owner may call it, as all below (STACK-4). */
void stack_cache_flush(struct stack_cache *cache);

/* Flushes the cache and takes it off the pool. */
void stack_cache_close(struct stack_cache *cache);

/* The errno of the last stack_cache_get that returned NULL. */
static inline int
stack_cache_error(const struct stack_cache *cache)
{
    return cache->error;
}

/* The slow halves of get and put. */
struct stack *stack_cache_refill(struct stack_cache *cache, unsigned class);
void stack_cache_spill(struct stack_cache *cache, unsigned class);

/* How many stacks of a class make a full magazine. */
static inline uint32_t
stack_magazine_size(unsigned class)
{
    return class < 6 ? (uint32_t)STACK_MAGAZINE >> class : 1;
}

/* A free, guarded stack of the class, the one most recently put back if there is one; or NULL, and
 * stack_cache_error says why. Nothing is changed or leaked by a failure. */
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

/* Takes a stack back. Nobody may run on it any more, not even the caller (STACK-5). */
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

/* Takes a stack that is not to be used again: its canary was hit. The same rule as for put. */
void stack_cache_retire(struct stack_cache *cache, struct stack *stack);

/* The caller stands on this stack, and all under its frame is over: a fiber has overflowed. Gives the memory down there
 * back. A refusal is counted, and costs memory only. */
void stack_shed(struct stack *stack);

/* Whether the canary of a stack without a guard is whole; true for all others. */
bool stack_canary_whole(const struct stack *stack);
static inline bool
stack_sound(const struct stack *stack)
{
    return LIKELY(stack->guard != STACK_GUARD_CANARY) || stack_canary_whole(stack);
}

/* The stack whose slot, guard included, contains the address, or NULL. Safe in a signal handler. The address
 * must be on a stack that cannot go away meanwhile, or on none of ours. */
struct stack *stack_find(const void *address);

/* How many bytes the caller's stack has left, if `stack` is the caller's. By the stack pointer, where its name is known: for
 * the address of its frame a function would have to keep a frame pointer. */
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
