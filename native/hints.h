/* Hints to the compiler: which branch is usual, what to inline, what to load early. They never change what code does.
 *
 * All C of the project takes its hints from here, so that one word means one thing everywhere, and a compiler without them
 * needs a change in one file. The two public headers of include/ are the exception: programs include them alone.
 *
 * Rejected: profile-guided optimisation in their place. An install on a user's machine has no profile.
 */
#pragma once

#if defined(__GNUC__)
#  define LIKELY(condition) __builtin_expect(!!(condition), 1)
#  define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#  define PREFETCH(address) __builtin_prefetch(address) /* read soon; the address may be NULL */
#  define NOINLINE __attribute__((noinline))            /* a rare path: inlined, it would cost the caller registers */
#  define COLD __attribute__((noinline, cold))          /* a very rare path: also placed away from hot code */
#  define ALWAYS_INLINE inline __attribute__((always_inline))
#  define UNUSED __attribute__((unused)) /* a static function of a header, which some files do not call */
#else
#  define LIKELY(condition) (condition)
#  define UNLIKELY(condition) (condition)
#  define PREFETCH(address) ((void)(address))
#  define NOINLINE
#  define COLD
#  define ALWAYS_INLINE inline
#  define UNUSED
#endif
