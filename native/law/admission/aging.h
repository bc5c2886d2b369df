/* Aging: a waiting ticket gains priority. Mirrors src/bursar/law/admission/aging.py.
 *
 *     effective priority = priority + floor(wait / interval) * boost        (boost 0: strict)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/limits.h"

/* The priority that counts after a wait of `wait_ns`, which is never negative. False: it does not fit 64 bits. */
static inline bool
law_effective_priority(int64_t priority, int64_t wait_ns, int64_t interval_ns, int64_t boost, int64_t *effective)
{
    *effective = priority;
    if (boost == 0) {
        return true;
    }
    int64_t intervals = wait_ns / interval_ns;
    if (intervals > (INT64_MAX - LAW_PRIORITY_MAX) / boost) {
        return false;
    }
    *effective += intervals * boost;
    return true;
}
