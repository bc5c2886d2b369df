/* Atomic operations and fences: the engine accesses shared memory only through this file.
 *
 * In a normal build these are C11 atomics and cost nothing more. In a build with BURSAR_EXPLORE each call goes to the
 * schedule explorer (tests/native/engine/explore.c), which runs the same source under every interleaving and under weak
 * memory. A cell is a struct, so that `cell = 1` does not compile: every access states its order.
 *
 * ATOMICS-1  the order of an access is RELAXED, ACQUIRE, RELEASE or ACQ_REL; sequential consistency comes only from
 *     fences
 * ATOMICS-2  data is published by a RELEASE access and received by an ACQUIRE access, never by a fence. Sanitizers
 *     follow accesses, and a reader of the code finds the pair by the name of the cell
 * ATOMICS-3  a fence orders a store before a later load (as in Dekker's algorithm); no access short of sequential
 *     consistency does that
 * ATOMICS-4  init_* is only for memory that no other thread can see yet
 *
 * Rejected: seq_cst accesses. They are ordered only against each other, and their effect on the weaker accesses around
 * them differs between revisions of the standard. The argument for a fence takes one sentence.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two lines of 64 bytes: x86 fetches lines in pairs, and some AArch64 cores have lines of 128 bytes. */
#define CACHE_LINE 128

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release
#define ACQ_REL memory_order_acq_rel

#ifdef BURSAR_EXPLORE

uint64_t explore_load(const void *cell, memory_order order);
void explore_store(void *cell, uint64_t value, memory_order order);
uint64_t explore_swap(void *cell, uint64_t value, memory_order order);
bool explore_cas(void *cell, uint64_t *expected, uint64_t value, memory_order order);
uint64_t explore_add(void *cell, uint64_t value, memory_order order);
uint64_t explore_or(void *cell, uint64_t value, memory_order order);
uint64_t explore_and(void *cell, uint64_t value, memory_order order);
void explore_init(void *cell, uint64_t value);
void explore_fence(void);
void explore_fence_all(void);
void explore_loop(void);
void explore_again(uint64_t state);

#  define ATOMIC_CELL(name, type, word)                                                               \
      typedef struct {                                                                                \
          uint64_t cell;                                                                              \
      } atomic_##name;                                                                                \
      static inline void init_##name(atomic_##name *a, type value)                                    \
      {                                                                                               \
          explore_init(a, (uint64_t)(word)value);                                                     \
      }                                                                                               \
      static inline type load_##name(const atomic_##name *a, memory_order order)                      \
      {                                                                                               \
          return (type)(word)explore_load(a, order);                                                  \
      }                                                                                               \
      static inline void store_##name(atomic_##name *a, type value, memory_order order)               \
      {                                                                                               \
          explore_store(a, (uint64_t)(word)value, order);                                             \
      }                                                                                               \
      static inline type swap_##name(atomic_##name *a, type value, memory_order order)                \
      {                                                                                               \
          return (type)(word)explore_swap(a, (uint64_t)(word)value, order);                           \
      }                                                                                               \
      static inline bool cas_##name(atomic_##name *a, type *expected, type value, memory_order order) \
      {                                                                                               \
          uint64_t wanted = (uint64_t)(word) * expected;                                              \
          bool done = explore_cas(a, &wanted, (uint64_t)(word)value, order);                          \
          *expected = (type)(word)wanted;                                                             \
          return done;                                                                                \
      }

#  define ATOMIC_COUNT(name, type)                                                    \
      static inline type add_##name(atomic_##name *a, type value, memory_order order) \
      {                                                                               \
          return (type)explore_add(a, (uint64_t)value, order);                        \
      }                                                                               \
      static inline type or_##name(atomic_##name *a, type value, memory_order order)  \
      {                                                                               \
          return (type)explore_or(a, (uint64_t)value, order);                         \
      }                                                                               \
      static inline type and_##name(atomic_##name *a, type value, memory_order order) \
      {                                                                               \
          return (type)explore_and(a, (uint64_t)value, order);                        \
      }

#else

#  define ATOMIC_CELL(name, type, word)                                                                           \
      typedef struct {                                                                                            \
          _Atomic(type) cell;                                                                                     \
      } atomic_##name;                                                                                            \
      static inline void init_##name(atomic_##name *a, type value)                                                \
      {                                                                                                           \
          atomic_init(&a->cell, value);                                                                           \
      }                                                                                                           \
      static inline type load_##name(const atomic_##name *a, memory_order order)                                  \
      {                                                                                                           \
          return atomic_load_explicit(&a->cell, order);                                                           \
      }                                                                                                           \
      static inline void store_##name(atomic_##name *a, type value, memory_order order)                           \
      {                                                                                                           \
          atomic_store_explicit(&a->cell, value, order);                                                          \
      }                                                                                                           \
      static inline type swap_##name(atomic_##name *a, type value, memory_order order)                            \
      {                                                                                                           \
          return atomic_exchange_explicit(&a->cell, value, order);                                                \
      }                                                                                                           \
      static inline bool cas_##name(atomic_##name *a, type *expected, type value, memory_order order)             \
      {                                                                                                           \
          return atomic_compare_exchange_strong_explicit(&a->cell, expected, value, order, memory_order_relaxed); \
      }

#  define ATOMIC_COUNT(name, type)                                                    \
      static inline type add_##name(atomic_##name *a, type value, memory_order order) \
      {                                                                               \
          return atomic_fetch_add_explicit(&a->cell, value, order);                   \
      }                                                                               \
      static inline type or_##name(atomic_##name *a, type value, memory_order order)  \
      {                                                                               \
          return atomic_fetch_or_explicit(&a->cell, value, order);                    \
      }                                                                               \
      static inline type and_##name(atomic_##name *a, type value, memory_order order) \
      {                                                                               \
          return atomic_fetch_and_explicit(&a->cell, value, order);                   \
      }

#endif

/* The cells. Each has init, load, store, swap (returns the old value) and cas. cas returns whether it stored the value,
 * and writes the value that it found to `expected`; a cas that fails orders nothing. The counting cells also have add,
 * or and and, which return the old value; they wrap around. */
ATOMIC_CELL(i64, int64_t, int64_t)
ATOMIC_CELL(u64, uint64_t, uint64_t)
ATOMIC_CELL(u32, uint32_t, uint32_t)
ATOMIC_CELL(ptr, void *, uintptr_t)
ATOMIC_COUNT(i64, int64_t)
ATOMIC_COUNT(u64, uint64_t)
ATOMIC_COUNT(u32, uint32_t)

#undef ATOMIC_CELL
#undef ATOMIC_COUNT

/* Add one to a counter that only the caller writes and other threads read. So no read-modify-write of another thread
 * can interfere, and on x86 it is still one instruction. */
static inline void
count_u64(atomic_u64 *counter)
{
#if defined(__x86_64__) && !defined(BURSAR_EXPLORE) && !defined(__SANITIZE_THREAD__)
    __asm__("addq $1, %0" : "+m"(counter->cell) : : "cc");
#else
    store_u64(counter, load_u64(counter, memory_order_relaxed) + 1, memory_order_relaxed);
#endif
}

/* A sequentially consistent fence. Of two threads that each store, fence, and load what the other stored, at least one
 * sees the other's store (ATOMICS-3). */
static inline void
fence_seq_cst(void)
{
#if defined(BURSAR_EXPLORE)
    explore_fence();
#elif defined(__SANITIZE_THREAD__)
    /* gcc warns that the sanitizer does not follow fences. By ATOMICS-2 it does not have to. */
    extern void __tsan_atomic_thread_fence(int order);
    __tsan_atomic_thread_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The same fence, directly after a read-modify-write of this thread, which on x86 already is a fence. */
static inline void
fence_after_change(void)
{
#if defined(__x86_64__) && !defined(BURSAR_EXPLORE)
    atomic_signal_fence(memory_order_seq_cst);
#else
    fence_seq_cst();
#endif
}

/* The same fence for a protocol with a frequent side and a rare side. The frequent side calls `fence_light`, the rare
 * side `fence_heavy`, and the pair orders as two sequentially consistent fences do. If `asymmetric`, the heavy side
 * makes the kernel interrupt every running thread of the process, and the light side only keeps the compiler from
 * moving accesses across it. Otherwise both are ordinary fences. All users of one protocol must pass the same value,
 * from `fence_asymmetric`. */
static inline void
fence_light(bool asymmetric)
{
    if (!asymmetric) {
        fence_seq_cst();
        return;
    }
#ifndef BURSAR_EXPLORE
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* The fence of the rare side. If `asymmetric`, it costs a system call, about a microsecond. */
void fence_heavy(bool asymmetric);

/* Ask the kernel for asymmetric fences for this process. Returns whether it has them. May be called again. */
bool fence_asymmetric(void);

/* Call it before a loop that tries again as long as other threads interfere. */
static inline void
tries_begin(void)
{
#ifdef BURSAR_EXPLORE
    explore_loop();
#endif
}

/* Call it at the head of such a loop. `state` is everything that the next attempt knows from the earlier ones. So the
 * explorer can see that a thread which loops without a change reaches no new state; otherwise it would follow the
 * thread forever. */
static inline void
tries_again(uint64_t state)
{
#ifdef BURSAR_EXPLORE
    explore_again(state);
#else
    (void)state;
#endif
}

/* Tell the processor that this is a waiting loop. */
static inline void
cpu_relax(void)
{
#if defined(BURSAR_EXPLORE)
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ __volatile__("yield");
#endif
}
