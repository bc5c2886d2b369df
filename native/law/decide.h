/* `law_decide`: which lane a worker takes its next task from. Mirrors src/bursar/law/decide.py.
 *
 *     1  cancel lane, if its streak is below the limit
 *     2  timed lane, if its head is due (and ready work has not waited too long for it)
 *     3  ready lane
 *     4  steal
 *     5  cancel lane again, if it is all there is
 *     6  idle
 *
 * DECIDE-1  at most `limit` cancel dispatches in a row while other work is runnable; the limit is CANCEL_STREAK_MAX,
 *     doubled while a nursery is CANCELLING or a DRAINING task holds an obligation
 * DECIDE-2  at most TIMED_STREAK_MAX timed dispatches between two ready ones while ready work exists
 *
 * Together: ready work at the head of its queue runs after at most `law_wait_max(limit)` decisions of its worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/limits.h"
#include "law/lanes.h"

/* The limit of DECIDE-1. */
static inline uint32_t
law_cancel_limit(bool draining)
{
    return draining ? 2 * LAW_CANCEL_STREAK_MAX : LAW_CANCEL_STREAK_MAX;
}

/* How many decisions of its worker a ready task at the head of its queue may have to wait. */
static inline uint32_t
law_wait_max(uint32_t limit)
{
    return LAW_TIMED_STREAK_MAX * (limit + 1) + limit;
}

/* The lane to take from, given which lanes have work and the two streaks. */
static inline LawLane
law_decide(bool cancel, bool due, bool ready, bool stealable, uint32_t cancel_streak, uint32_t limit,
           uint32_t timed_streak)
{
    if (cancel && cancel_streak < limit) {
        return LAW_LANE_CANCEL;
    }
    if (due && (timed_streak < LAW_TIMED_STREAK_MAX || !(ready || stealable))) {
        return LAW_LANE_TIMED;
    }
    if (ready) {
        return LAW_LANE_READY;
    }
    if (stealable) {
        return LAW_LANE_STEAL;
    }
    return cancel ? LAW_LANE_CANCEL_FALLBACK : LAW_LANE_IDLE;
}

/* Update the streaks after a dispatch from `lane`. */
static inline void
law_streaks_after(LawLane lane, uint32_t *cancel_streak, uint32_t *timed_streak)
{
    switch (lane) {
    case LAW_LANE_CANCEL:
        *cancel_streak += 1;
        break;
    case LAW_LANE_TIMED:
        *cancel_streak = 0;
        *timed_streak = *timed_streak < LAW_TIMED_STREAK_MAX ? *timed_streak + 1 : LAW_TIMED_STREAK_MAX;
        break;
    case LAW_LANE_CANCEL_FALLBACK:
        *cancel_streak = 0;
        break;
    case LAW_LANE_IDLE:
    case LAW_LANE_READY:
    case LAW_LANE_STEAL:
        *cancel_streak = *timed_streak = 0;
        break;
    }
}
