/* Deferred errors (deferred_error.c): a failure inside a change that must complete is stored, and raised at the next step.
 *
 * Any C file that is past the line "check everything, then change" calls `k_defer_error` and goes on.
 */

#pragma once

#include "python/law/records.h"

/* A broken rule: always -1, with AssertionError set. */
COLD int rule_broken(const char *name);

/* A rule that a program can break by tearing a run down in the middle: an error that stops the run, as in Python. */
static inline int
rule(bool holds, const char *name)
{
    return LIKELY(holds) ? 0 : rule_broken(name);
}

/* Something failed in the middle of a change that must not stay half done. The exception that is set is stored, the change
 * goes on, and the run ends with the first such exception at its next step. Always 0. */
int k_defer_error(Kernel *k);
COLD int k_raise_deferred(const Kernel *k); /* always -1, with the stored exception set */

/* 0, or -1 with the stored exception set. */
static inline int
k_check_deferred(const Kernel *k)
{
    return LIKELY(k->deferred_error == NULL) ? 0 : k_raise_deferred(k);
}
