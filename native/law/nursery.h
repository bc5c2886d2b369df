/* Nurseries: their states, and the result of a nursery as a whole. Mirrors src/bursar/law/nursery.py.
 *
 *     OPEN ──seal, or the block has ended and no child lives──► CLOSING ──await, quiescent──► CLOSED
 *       │                                                          │
 *       └────────────────────────── cancel ────────────────────────┴──► CANCELLING ──await, quiescent──► CANCELLED
 *
 * NURSERY-1  every live task is a child of exactly one nursery; only the root nursery has no owner
 * NURSERY-2  a nursery takes children only while OPEN
 * NURSERY-3  a nursery reaches a terminal state only in its owner's await, and only without live children (quiescence)
 * NURSERY-4  the first failure of any kind is the result and keeps its kind; then cancelled; then ok
 * NURSERY-5  a nursery whose block has ended is OPEN only while a child lives
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/state.h"

static inline bool
law_nursery_terminal(unsigned state)
{
    return state >= LAW_NURSERY_CLOSED;
}

/* Whether the drawing above allows the move. False for numbers that are not states. */
static inline bool
law_nursery_may_move(unsigned from, unsigned to)
{
    return from < LAW_NURSERY_STATES && to < LAW_NURSERY_STATES && (LAW_NURSERY_MOVES[from] >> to & 1u) != 0;
}

/* Change the state of a nursery, which the drawing must allow. */
static inline void
law_nursery_move(uint8_t *state, LawNurseryState to)
{
    LAW_RULE(law_nursery_may_move(*state, to), "NURSERY-3");
    *state = (uint8_t)to;
}

/* Whether an outcome is a failure that a nursery reports. */
static inline bool
law_is_failure(LawOutcome outcome)
{
    return outcome == LAW_OUTCOME_FAILED || outcome == LAW_OUTCOME_PANICKED;
}

/* Whether the end of a child makes the nursery note a failure. In a supervised nursery no end does: the supervisor gets
 * it and decides. A failure cancels the siblings if the nursery says so. */
static inline bool
law_nursery_notes(LawOutcome outcome, bool supervised)
{
    return !supervised && law_is_failure(outcome);
}

/* NURSERY-4: the outcome of the nursery as a whole. `first_failure` is the kind of the first failure, FAILED or
 * PANICKED, or OK if there was none; `cancelled` says that the nursery was cancelled. */
static inline LawOutcome
law_nursery_result(LawOutcome first_failure, bool cancelled)
{
    if (law_is_failure(first_failure)) {
        return first_failure;
    }
    return cancelled ? LAW_OUTCOME_CANCELLED : LAW_OUTCOME_OK;
}
