/* Permits: where a task stands that has to ask for permission, and what may follow. After admission/permit.py.
 *
 *     WAITS ◄──► QUEUED ──► HELD ──► OVER        and from anywhere to OVER; asked to stop, WAITS and QUEUED become
 *                            ▲ ▼                 STOPS, ASIDE and RETURNS become HELD
 *                    ASIDE ◄──► RETURNS
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/limits.h"
#include "law/generated/transitions.h"
#include "law/rule.h"

/* Whether the drawing above allows the move. False for numbers that are no states. */
static inline bool
law_permit_may_move(unsigned from, unsigned to)
{
    return from < LAW_PERMITS && to < LAW_PERMITS && (LAW_PERMIT_MOVES[from] >> to & 1u) != 0;
}

/* Change the state of a permit, which the table must allow. */
static inline void
law_permit_move(uint8_t *state, LawPermit to)
{
    LAW_RULE(law_permit_may_move(*state, to), "GATE-3");
    *state = (uint8_t)to;
}
