/* A weak memory for the schedule explorer: what a thread may read, by C11's rules.
 *
 * Each cell has the list of all values ever stored in it, oldest first. A thread has a view: for each cell, the oldest
 * write that it may still read. A load may return that write or any later one; the explorer tries them all. A write
 * carries the view that a reader with ACQUIRE takes over: the writer's whole view if it was a RELEASE. A fence
 * exchanges views with one view that all fences share. This is the view machine of the "promising" semantics without
 * its promises.
 *
 * WEAKMEM-1  a thread never reads a write older than one that it has read or written, or that is in its view
 * WEAKMEM-2  a read-modify-write reads the newest value; a write becomes the newest
 * WEAKMEM-3  of two threads that store, fence and load each other's cell, at least one sees the other's store
 *
 * So a missing RELEASE, ACQUIRE or fence shows as a stale read, even where the machine would not produce one. Not
 * modelled: a load that reads a store which comes later in every order ("load buffering"), and a failed
 * compare-and-swap that reads a stale value. Weaker than the store buffers of x86: everything that they allow happens
 * here too.
 */
#ifndef WEAKMEM_H
#define WEAKMEM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WEAK_CELLS_MAX = 192,
    WEAK_WRITES_MAX = 1000, /* per cell and run */
    WEAK_THREADS_MAX = 4,
    WEAK_ALONE = WEAK_THREADS_MAX, /* setup and checks, when no thread runs: reads the newest value, chooses nothing */
};

typedef enum { WEAK_SWAP, WEAK_ADD, WEAK_OR, WEAK_AND } WeakChange;

/* Forget all cells, before another program. Between the runs of one program they keep their numbers: a hash depends on
 * them. */
void weak_forget(void);

/* Forget all writes and views. */
void weak_reset(void);

/* The threads start: each knows everything that was written before. */
void weak_start(unsigned threads);

/* The number of a cell. The first use gives it the value `fresh`. */
unsigned weak_cell(const void *address, uint64_t fresh);

/* Set a cell that no other thread can see yet. */
void weak_init(unsigned cell, uint64_t value);

/* How many writes `thread` may read: the choices are 0 (the newest) up to that. */
unsigned weak_readable(unsigned thread, unsigned cell);

uint64_t weak_load(unsigned thread, unsigned cell, unsigned age, bool acquire);
uint64_t weak_newest(unsigned cell);
void weak_store(unsigned thread, unsigned cell, uint64_t value, bool release);
uint64_t weak_change(unsigned thread, unsigned cell, WeakChange change, uint64_t operand, bool acquire, bool release);

/* A sequentially consistent fence of one thread; of all threads at once. */
void weak_fence(unsigned thread);
void weak_fence_all(unsigned threads);

/* A hash of everything that the threads in `live` (a bit set) may still read. Two moments with equal hashes and equal
 * local states have the same futures. */
uint64_t weak_hash(unsigned live);

/* The same for threads that always read the newest value. */
uint64_t weak_hash_newest(void);

static inline uint64_t
weak_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

#endif
