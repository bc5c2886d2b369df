/* The common part of the programs in this folder. Stacks are reused. They have the smallest size that the library
 * allows, in whole pages. With wide registers that is more than Bursar's 8 KiB: the dynamic linker saves all registers
 * on the fiber's stack when it binds a function at its first call, and there is no guard page. One thread: the library's
 * work stealing is a sample scheduler, and slower in all cases. */
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
