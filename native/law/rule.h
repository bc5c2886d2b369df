/* LAW_RULE: a numbered rule of the law, checked where the code could break it.
 *
 * The Python files write `assert ..., "BUDGET-3"`. Here the check stays in release builds too: each one is a compare
 * and a branch that is never taken, and a scheduler with wrong accounts must stop before it acts on them. A broken rule
 * is a bug of Bursar, never a mistake of a task, so there is no caller that could handle an error.
 *
 * Rejected: the assert of libc. Release builds define NDEBUG, so it is missing where it is needed most.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "hints.h"

/* Print which rule was broken and where, and end the process. Not inlined: that would cost the fast paths registers,
 * and 3 % of a yield. */
COLD UNUSED _Noreturn static void
law_broken(const char *rule, const char *file, int line)
{
    fprintf(stderr, "bursar: rule %s of the law does not hold (%s:%d); this is a bug in bursar, please report it\n",
            rule, file, line);
    abort();
}

#define LAW_RULE(holds, rule) ((holds) ? (void)0 : law_broken(rule, __FILE__, __LINE__))
