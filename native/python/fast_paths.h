/* Whether this build takes fast paths.
 *
 * A fast path does what its slow twin would do, for the usual case, with fewer instructions. It has two parts: a condition,
 * `is_plain_...`, which tells the usual case, and a function, `..._fast`, which assumes that case and asks nothing again.
 * Every other case goes to the twin, which handles all of them. A fast path is beside its twin, in X_fast.h. If the twin is
 * in Python and only one C file uses the fast path, the condition is in that file: gate_decide.c, nursery_block.c, job.c.
 *
 * The CMake option BURSAR_FAST_PATHS=OFF makes every such condition false, and leaves the caches of the kernel unread. The
 * law then takes the same decisions by the slow twins alone: same fingerprints, same traces. The tests run such a build, so
 * a fast path that decides differently is found by comparison.
 *
 * What has no slow twin is not a fast path, even if it is an inline function for speed: drive/resume.h, for example.
 */

#pragma once

#include "hints.h" /* FAST_PATHS */
