/* What the programs of this folder share: fibers on stacks that are reused, 8 KiB each, as Bursar's are. One thread: the
 * library's own work stealing is a sample scheduler, and slower at all of this. */
#ifndef BURSAR_BENCH_BOOST_H
#define BURSAR_BENCH_BOOST_H

#include <boost/fiber/all.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>
#include <utility>

#include "measure.h"

static boost::fibers::pooled_fixedsize_stack stacks(8192);

template <typename Body>
static inline boost::fibers::fiber
spawn(Body body)
{
    return boost::fibers::fiber(boost::fibers::launch::post, std::allocator_arg, stacks, std::move(body));
}

#endif
