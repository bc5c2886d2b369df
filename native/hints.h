/* Hints to the compiler: which branch is usual, what to inline, what to load early. They never change what code does.
 *
 * All C code of the project takes its hints from here. So one word means one thing everywhere, and a compiler without such
 * hints needs a change in one file. The two public headers in include/ are the exception: programs include them alone.
 *
 * Rejected: profile-guided optimisation instead of hints. An install on a user's machine has no profile.
 */
#pragma once

/* Whether this build takes the fast paths that have a slow twin: python/fast_paths.h says what that means. A fast path does
 * what its twin would do, so this is a hint as well. The CMake option BURSAR_FAST_PATHS=OFF defines BURSAR_NO_FAST_PATHS. */
#ifdef BURSAR_NO_FAST_PATHS
#  define FAST_PATHS 0
#else
#  define FAST_PATHS 1
#endif

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
