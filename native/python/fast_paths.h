/* Whether this build takes fast paths.
 *
 * A fast path does what its slow twin would do, for the usual case, with fewer instructions. It has two parts: a condition,
 * `is_plain_...`, which tells the usual case, and a function, `..._fast`, which assumes that case and asks nothing again.
 * Every other case goes to the twin, which handles all of them. A fast path stands beside its twin, in X_fast.h.
 *
 * The CMake option BURSAR_FAST_PATHS=OFF makes every such condition false, and leaves the caches of the kernel unread. The
 * law then takes the same decisions by the slow twins alone: same fingerprints, same traces. The tests run such a build, so
 * a fast path that decides differently is found by comparison.
 *
 * What has no slow twin is not a fast path, even if it is an inline function for speed: drive/resume.h, for example.
 */

#pragma once

#ifdef BURSAR_NO_FAST_PATHS
#  define FAST_PATHS 0
#else
#  define FAST_PATHS 1
#endif
