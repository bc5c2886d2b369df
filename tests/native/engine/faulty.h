/* Memory that counts, and that refuses on request: for tests of what happens without memory. */
#ifndef FAULTY_H
#define FAULTY_H

#include "engine/allocator.h"

typedef struct {
    long calls;      /* allocations asked for */
    long fail_at;    /* the allocation that is refused, counted from 1; 0: none */
    long fail_from;  /* this allocation and all later ones are refused; 0: none */
    long blocks;     /* allocated and not released */
    long long bytes; /* of these */
} Faulty;

static void *
faulty_allocate(void *context, size_t bytes)
{
    Faulty *faulty = context;
    faulty->calls++;
    if (faulty->calls == faulty->fail_at || (faulty->fail_from != 0 && faulty->calls >= faulty->fail_from)) {
        return NULL;
    }
    void *block = engine_allocator_libc.allocate(NULL, bytes);
    faulty->blocks += block != NULL;
    faulty->bytes += block != NULL ? (long long)bytes : 0;
    return block;
}

static void
faulty_release(void *context, void *block, size_t bytes)
{
    Faulty *faulty = context;
    faulty->blocks--;
    faulty->bytes -= (long long)bytes;
    engine_allocator_libc.release(NULL, block, bytes);
}

#endif
