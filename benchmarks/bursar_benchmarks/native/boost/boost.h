/* What the programs of this folder share: fibers on stacks that are reused, and as small as the library says they may be, in
 * whole pages. Where the processor has wide registers that is more than Bursar's 8 KiB: the dynamic linker saves all of them
 * on the fiber's stack when it binds a function at its first call, and nothing guards the end. One thread: the library's own
 * work stealing is a sample scheduler, and slower at all of this. */
#ifndef BURSAR_BENCH_BOOST_H
#define BURSAR_BENCH_BOOST_H

#include <boost/context/stack_traits.hpp>
#include <boost/fiber/all.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>
#include <utility>

#include "measure.h"

static inline size_t
stack_bytes()
{
    using traits = boost::context::stack_traits;
    return (traits::minimum_size() + traits::page_size() - 1) / traits::page_size() * traits::page_size();
}

static boost::fibers::pooled_fixedsize_stack stacks(stack_bytes());

template <typename Body>
static inline boost::fibers::fiber
spawn(Body body)
{
    return boost::fibers::fiber(boost::fibers::launch::post, std::allocator_arg, stacks, std::move(body));
}

#endif
