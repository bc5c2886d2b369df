/* The common part of the programs in this folder. */
#ifndef BURSAR_BENCH_TBB_H
#define BURSAR_BENCH_TBB_H

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "measure.h"

/* Runs `body` in an arena of as many workers as the command line says. */
template <typename Body>
static inline void
in_arena(int count, char **arguments, const Body &body)
{
    int workers = static_cast<int>(argument(count, arguments, 1, 1));
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers));
    tbb::task_arena arena(workers);
    arena.execute(body);
}

#endif
