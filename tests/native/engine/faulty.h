/* Memory that counts, and that refuses when told to: for tests of what happens when there is none. */
#ifndef FAULTY_H
#define FAULTY_H

#include "engine/memory.h"

typedef struct {
    long calls;      /* allocations asked for */
    long fail_at;    /* the one that gets nothing, counted from 1; 0: none */
    long fail_from;  /* that one and all later ones; 0: none */
    long blocks;     /* given out and not back */
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
    void *block = engine_memory_libc.allocate(NULL, bytes);
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
    engine_memory_libc.release(NULL, block, bytes);
}

#endif
