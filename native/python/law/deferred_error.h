/* Deferred errors (deferred_error.c): a failure inside a change that must complete is stored, and raised at the next
 * step.
 *
 * Code that has checked everything and begun a change calls `k_defer_error` when something fails, and goes on.
 */

#pragma once

#include "python/law/records.h"

/* A broken rule: always -1, with AssertionError set. */
COLD int rule_broken(const char *name);

/* Check a rule that a program can break by dropping a run in the middle. 0, or -1 with AssertionError set, as in
 * Python. */
static inline int
rule(bool holds, const char *name)
{
    return LIKELY(holds) ? 0 : rule_broken(name);
}

/* Store the exception that is set, because the change under way must complete. The next step of the run raises the
 * first exception that was stored. Always 0. */
int k_defer_error(Kernel *k);
COLD int k_raise_deferred(const Kernel *k); /* always -1, with the stored exception set */

/* 0, or -1 with the stored exception set. */
static inline int
k_check_deferred(const Kernel *k)
{
    return LIKELY(k->deferred_error == NULL) ? 0 : k_raise_deferred(k);
}
