/* Permits: where a task stands that has to ask for permission, and what may follow. After admission/permit.py.
 *
 *     WAITS ◄──► QUEUED ──► HELD ──► OVER        and from anywhere to OVER; asked to stop, WAITS and QUEUED become
 *                            ▲ ▼                 STOPS, ASIDE and RETURNS become HELD
 *                    ASIDE ◄──► RETURNS
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/rule.h"

/* Where a permit stands; `PermitState` says what each means. Stored in a uint8_t. */
typedef enum {
    LAW_PERMIT_WAITS = 0,
    LAW_PERMIT_QUEUED = 1,
    LAW_PERMIT_STOPS = 2,
    LAW_PERMIT_HELD = 3,
    LAW_PERMIT_ASIDE = 4,
    LAW_PERMIT_RETURNS = 5,
    LAW_PERMIT_OVER = 6,
} LawPermit;

enum { LAW_PERMITS = 7 };

enum { LAW_PRIORITY_MAX = 1000000000, LAW_PRIORITY_NORMAL = 50 }; /* `PRIORITY_MAX`, `Priority.NORMAL` */

/* Whether the drawing above allows the move. False for numbers that are no states. */
static inline bool
law_permit_may_move(unsigned from, unsigned to)
{
    static const uint8_t legal[LAW_PERMITS] = {
        [LAW_PERMIT_WAITS] =
            1u << LAW_PERMIT_QUEUED | 1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_STOPS | 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_QUEUED] =
            1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_WAITS | 1u << LAW_PERMIT_STOPS | 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_STOPS] = 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_HELD] = 1u << LAW_PERMIT_ASIDE | 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_ASIDE] = 1u << LAW_PERMIT_RETURNS | 1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_RETURNS] = 1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_ASIDE | 1u << LAW_PERMIT_OVER,
        [LAW_PERMIT_OVER] = 0,
    };
    return from < LAW_PERMITS && to < LAW_PERMITS && (legal[from] >> to & 1u) != 0;
}

/* Change the state of a permit, which the table must allow. */
static inline void
law_permit_move(uint8_t *state, LawPermit to)
{
    LAW_RULE(law_permit_may_move(*state, to), "GATE-3");
    *state = (uint8_t)to;
}
