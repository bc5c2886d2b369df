/* The one door to shared memory: every atomic operation and every fence of the engine goes through here.
 *
 * Built normally these are C11 atomics and cost nothing more. Built with BURSAR_EXPLORE each call goes to the schedule
 * explorer (tests/native/engine/explore.c), which runs the same source under every interleaving and under a weak
 * memory. A cell is a struct, so that `cell = 1` does not compile: no access without an order that somebody chose.
 *
 * ATOMICS-1  the order of an access is RELAXED, ACQUIRE, RELEASE or ACQ_REL; sequential consistency comes from fences alone
 * ATOMICS-2  data is published by a RELEASE access and received by an ACQUIRE access, never by a fence: sanitizers follow
 *     accesses, and a reader finds the pair by the cell's name
 * ATOMICS-3  a fence orders a store before a later load (Dekker), which no access short of sequential consistency does
 * ATOMICS-4  init_* is for memory that no other thread can see yet
 *
 * Rejected: seq_cst accesses. They order only against each other, and what they do to the plain ones around them
 * differs between revisions of the standard; a fence can be argued in one sentence.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two lines of 64 bytes: x86 fetches them in pairs, and some AArch64 cores have lines of 128. */
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

/* The cells. For each: init, load, store, swap (answers the old value) and cas, which answers whether it took place and
 * leaves the value it met in `expected`; a cas that fails orders nothing. The counting ones also have add, or and and,
 * which answer the old value; they wrap around. */
ATOMIC_CELL(i64, int64_t, int64_t)
ATOMIC_CELL(u64, uint64_t, uint64_t)
ATOMIC_CELL(u32, uint32_t, uint32_t)
ATOMIC_CELL(ptr, void *, uintptr_t)
ATOMIC_COUNT(i64, int64_t)
ATOMIC_COUNT(u64, uint64_t)
ATOMIC_COUNT(u32, uint32_t)

#undef ATOMIC_CELL
#undef ATOMIC_COUNT

/* One more, in a counter that only the caller writes and others read: no read-modify-write for anybody else, and on x86 one
 * instruction all the same. */
static inline void
count_u64(atomic_u64 *counter)
{
#if defined(__x86_64__) && !defined(BURSAR_EXPLORE) && !defined(__SANITIZE_THREAD__)
    __asm__("addq $1, %0" : "+m"(counter->cell) : : "cc");
#else
    store_u64(counter, load_u64(counter, memory_order_relaxed) + 1, memory_order_relaxed);
#endif
}

/* A sequentially consistent fence: of two threads that each store, fence and load what the other stored, at least one
 * sees the other's store (ATOMICS-3). */
static inline void
fence_seq_cst(void)
{
#if defined(BURSAR_EXPLORE)
    explore_fence();
#elif defined(__SANITIZE_THREAD__)
    /* gcc warns that the sanitizer does not follow fences. By ATOMICS-2 it has nothing to follow here. */
    extern void __tsan_atomic_thread_fence(int order);
    __tsan_atomic_thread_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The same, right after a read-modify-write of this thread, which on x86 is a fence already. */
static inline void
fence_after_change(void)
{
#if defined(__x86_64__) && !defined(BURSAR_EXPLORE)
    atomic_signal_fence(memory_order_seq_cst);
#else
    fence_seq_cst();
#endif
}

/* The same for two sides of which one is hot. The hot side calls `fence_light`, the rare side `fence_heavy`, and the
 * pair orders as two sequentially consistent fences do. With `asymmetric` the kernel interrupts every running thread of
 * the process for the heavy side, and the light side only keeps the compiler from moving anything across; without it
 * both are plain fences. Every user of one protocol must pass the same value, got from `fence_asymmetric`. */
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

/* The rare side. Costs a system call, about a microsecond, if `asymmetric`. */
void fence_heavy(bool asymmetric);

/* Asks the kernel for asymmetric fences, for this process. Answers whether there are any; may be called again. */
bool fence_asymmetric(void);

/* Before a loop that tries again for as long as others are in its way. */
static inline void
tries_begin(void)
{
#ifdef BURSAR_EXPLORE
    explore_loop();
#endif
}

/* At its head: `state` is all that the next try has from those before it. So the explorer knows that a thread which goes
 * round without a change has not come to anything new; it would follow it for ever. */
static inline void
tries_again(uint64_t state)
{
#ifdef BURSAR_EXPLORE
    explore_again(state);
#else
    (void)state;
#endif
}

/* Tells the processor that this is a waiting loop. */
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
