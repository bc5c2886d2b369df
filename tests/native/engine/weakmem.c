/* The weak memory: see weakmem.h. */
#include "weakmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1024 };

/* For each cell the number of a write: its place in the cell's list. */
typedef struct {
    uint16_t at[WEAK_CELLS_MAX];
} View;

typedef struct {
    uint64_t value;
    View view; /* what a reader with ACQUIRE takes over */
} Write;

typedef struct {
    View now;   /* older writes must not be read (WEAKMEM-1) */
    View noted; /* its view after an acquire fence */
} Thread;

static const void *addresses[WEAK_CELLS_MAX];
static unsigned cells;
static uint16_t places[PLACES]; /* a hash table: address to cell + 1 */
static Write writes[WEAK_CELLS_MAX][WEAK_WRITES_MAX];
static uint16_t lengths[WEAK_CELLS_MAX];
static Thread threads_[WEAK_THREADS_MAX];
static View released[WEAK_THREADS_MAX]; /* what a RELAXED write of the thread carries: the view at its last fence */
static View fences;                     /* the view that all fences share (WEAKMEM-3) */

/* Views are copied at every step, so only their used part is copied. */
static void
copy(View *into, const View *from)
{
    memcpy(into->at, from->at, cells * sizeof into->at[0]);
}

static void
join(View *into, const View *from)
{
    for (unsigned i = 0; i < cells; i++) {
        into->at[i] = into->at[i] > from->at[i] ? into->at[i] : from->at[i];
    }
}

void
weak_forget(void)
{
    cells = 0;
    memset(places, 0, sizeof places);
}

/* A new cell: every view is at its first write. */
static void
forget_cell(unsigned cell)
{
    fences.at[cell] = 0;
    for (unsigned t = 0; t < WEAK_THREADS_MAX; t++) {
        threads_[t].now.at[cell] = threads_[t].noted.at[cell] = released[t].at[cell] = 0;
    }
    for (unsigned c = 0; c < cells; c++) {
        for (unsigned at = 0; at < lengths[c]; at++) {
            writes[c][at].view.at[cell] = 0;
        }
    }
}

void
weak_reset(void)
{
    memset(lengths, 0, cells * sizeof lengths[0]);
    memset(&fences, 0, cells * sizeof fences.at[0]);
}

void
weak_start(unsigned threads)
{
    for (unsigned t = 0; t < threads; t++) {
        for (unsigned c = 0; c < cells; c++) {
            threads_[t].now.at[c] = lengths[c] == 0 ? 0 : (uint16_t)(lengths[c] - 1);
        }
        copy(&threads_[t].noted, &threads_[t].now);
        copy(&released[t], &threads_[t].now);
    }
}

unsigned
weak_cell(const void *address, uint64_t fresh)
{
    unsigned place = (unsigned)(weak_mix((uintptr_t)address) % PLACES);
    while (places[place] != 0 && addresses[places[place] - 1] != address) {
        place = (place + 1) % PLACES;
    }
    if (places[place] == 0) {
        if (cells == WEAK_CELLS_MAX) {
            fprintf(stderr, "weakmem: more than %d cells; raise WEAK_CELLS_MAX\n", WEAK_CELLS_MAX);
            abort();
        }
        addresses[cells] = address;
        forget_cell(cells++);
        places[place] = (uint16_t)cells;
    }
    unsigned cell = places[place] - 1u;
    if (lengths[cell] == 0) {
        weak_init(cell, fresh);
    }
    return cell;
}

void
weak_init(unsigned cell, uint64_t value)
{
    memset(&writes[cell][0].view, 0, cells * sizeof writes[cell][0].view.at[0]);
    writes[cell][0].value = value;
    lengths[cell] = 1;
}

unsigned
weak_readable(unsigned thread, unsigned cell)
{
    return thread == WEAK_ALONE ? 1 : lengths[cell] - threads_[thread].now.at[cell];
}

uint64_t
weak_newest(unsigned cell)
{
    return writes[cell][lengths[cell] - 1].value;
}

uint64_t
weak_load(unsigned thread, unsigned cell, unsigned age, bool acquire)
{
    uint16_t at = (uint16_t)(lengths[cell] - 1u - age);
    const Write *write = &writes[cell][at];
    if (thread != WEAK_ALONE) {
        Thread *reader = &threads_[thread];
        reader->now.at[cell] = at;
        join(&reader->noted, &write->view);
        if (acquire) {
            join(&reader->now, &write->view);
        }
        join(&reader->noted, &reader->now);
    }
    return write->value;
}

/* Add a write that also carries the view `chain`, of the write that it replaces (in a read-modify-write). */
static void
append(unsigned thread, unsigned cell, uint64_t value, bool release, const View *chain)
{
    if (lengths[cell] == WEAK_WRITES_MAX) {
        fprintf(stderr, "weakmem: more than %d writes to a cell; raise WEAK_WRITES_MAX\n", WEAK_WRITES_MAX);
        abort();
    }
    uint16_t at = lengths[cell]++;
    Write *write = &writes[cell][at];
    write->value = value;
    if (thread == WEAK_ALONE) {
        memset(&write->view, 0, cells * sizeof write->view.at[0]);
    } else {
        Thread *writer = &threads_[thread];
        writer->now.at[cell] = writer->noted.at[cell] = at;
        copy(&write->view, release ? &writer->now : &released[thread]);
    }
    write->view.at[cell] = at;
    if (chain != NULL) {
        join(&write->view, chain);
    }
}

void
weak_store(unsigned thread, unsigned cell, uint64_t value, bool release)
{
    append(thread, cell, value, release, NULL);
}

uint64_t
weak_change(unsigned thread, unsigned cell, WeakChange change, uint64_t operand, bool acquire, bool release)
{
    const View *chain = &writes[cell][lengths[cell] - 1].view; /* stays valid: the new write gets another place */
    uint64_t old = weak_load(thread, cell, 0, acquire);
    uint64_t value = change == WEAK_SWAP  ? operand
                     : change == WEAK_ADD ? old + operand
                     : change == WEAK_OR  ? (old | operand)
                                          : (old & operand);
    append(thread, cell, value, release, chain);
    return old;
}

void
weak_fence(unsigned thread)
{
    if (thread == WEAK_ALONE) {
        return;
    }
    Thread *self = &threads_[thread];
    join(&self->noted, &fences);
    copy(&self->now, &self->noted);
    copy(&fences, &self->noted);
    copy(&released[thread], &self->noted);
}

/* Twice around: the first thread to fence must also get what the last one knew. */
void
weak_fence_all(unsigned threads)
{
    for (unsigned t = 0; t < 2 * threads; t++) {
        weak_fence(t % threads);
    }
}

static uint64_t
hash_view(uint64_t hash, const View *view, const uint16_t *base)
{
    for (unsigned c = 0; c < cells; c++) {
        uint16_t at = view->at[c] > base[c] ? (uint16_t)(view->at[c] - base[c]) : 0;
        hash = (hash ^ at) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

uint64_t
weak_hash(unsigned live)
{
    uint16_t base[WEAK_CELLS_MAX]; /* writes before this one can no longer be read */
    uint64_t hash = cells;
    for (unsigned c = 0; c < cells; c++) {
        base[c] = lengths[c] == 0 ? 0 : (uint16_t)(lengths[c] - 1);
        for (unsigned t = 0; t < WEAK_THREADS_MAX; t++) {
            if ((live >> t & 1) != 0 && threads_[t].now.at[c] < base[c]) {
                base[c] = threads_[t].now.at[c];
            }
        }
    }
    for (unsigned c = 0; c < cells; c++) {
        for (unsigned at = base[c]; at < lengths[c]; at++) {
            hash = weak_mix(hash ^ writes[c][at].value) + c;
            hash = hash_view(hash, &writes[c][at].view, base);
        }
    }
    for (unsigned t = 0; t < WEAK_THREADS_MAX; t++) {
        if ((live >> t & 1) != 0) {
            hash = hash_view(hash_view(hash_view(hash, &threads_[t].now, base), &threads_[t].noted, base), &released[t],
                             base);
        }
    }
    return hash_view(hash, &fences, base);
}

uint64_t
weak_hash_newest(void)
{
    uint64_t hash = cells;
    for (unsigned c = 0; c < cells; c++) {
        hash = weak_mix(hash ^ (lengths[c] == 0 ? 0 : weak_newest(c))) + c;
    }
    return hash;
}
