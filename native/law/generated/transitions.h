/* The tables of legal moves and endings: a bit for each successor.
 *
 * Written by scripts/generate_c.py from the law in Python: do not edit.
 */
#pragma once

#include <stdint.h>

#include "law/generated/enums.h"

/* `TRANSITIONS` of law/state.py. */
static const uint8_t LAW_STATE_MOVES[LAW_STATES] = {
    [LAW_STATE_PENDING] = 1u << LAW_STATE_READY | 1u << LAW_STATE_PAUSED | 1u << LAW_STATE_DONE,
    [LAW_STATE_READY] = 1u << LAW_STATE_RUNNING | 1u << LAW_STATE_PAUSED | 1u << LAW_STATE_DONE,
    [LAW_STATE_RUNNING] = 1u << LAW_STATE_READY | 1u << LAW_STATE_BLOCKED | 1u << LAW_STATE_EXHAUSTED | 1u <<
        LAW_STATE_PAUSED | 1u << LAW_STATE_DONE,
    [LAW_STATE_BLOCKED] = 1u << LAW_STATE_READY | 1u << LAW_STATE_PAUSED | 1u << LAW_STATE_DONE,
    [LAW_STATE_EXHAUSTED] = 1u << LAW_STATE_READY | 1u << LAW_STATE_PAUSED | 1u << LAW_STATE_DONE,
    [LAW_STATE_PAUSED] = 1u << LAW_STATE_PENDING | 1u << LAW_STATE_READY | 1u << LAW_STATE_DONE,
    [LAW_STATE_DONE] = 0,
};

/* `ENDINGS` of law/state.py. */
static const uint8_t LAW_STATE_ENDINGS[LAW_STATES] = {
    [LAW_STATE_PENDING] = 1u << LAW_OUTCOME_DROPPED | 1u << LAW_OUTCOME_CANCELLED,
    /* cancelled before its first poll */
    [LAW_STATE_READY] = 1u << LAW_OUTCOME_CANCELLED,
    [LAW_STATE_RUNNING] = 1u << LAW_OUTCOME_OK | 1u << LAW_OUTCOME_FAILED | 1u << LAW_OUTCOME_CANCELLED | 1u <<
        LAW_OUTCOME_PANICKED,
    [LAW_STATE_BLOCKED] = 1u << LAW_OUTCOME_FAILED | 1u << LAW_OUTCOME_CANCELLED,
    [LAW_STATE_EXHAUSTED] = 1u << LAW_OUTCOME_FAILED | 1u << LAW_OUTCOME_CANCELLED,
    [LAW_STATE_PAUSED] = 1u << LAW_OUTCOME_FAILED | 1u << LAW_OUTCOME_CANCELLED,
    [LAW_STATE_DONE] = 0,
};

/* `TRANSITIONS` of law/nursery.py. */
static const uint8_t LAW_NURSERY_MOVES[LAW_NURSERY_STATES] = {
    [LAW_NURSERY_OPEN] = 1u << LAW_NURSERY_CLOSING | 1u << LAW_NURSERY_CANCELLING,
    [LAW_NURSERY_CLOSING] = 1u << LAW_NURSERY_CANCELLING | 1u << LAW_NURSERY_CLOSED,
    [LAW_NURSERY_CANCELLING] = 1u << LAW_NURSERY_CANCELLED,
    [LAW_NURSERY_CLOSED] = 0,
    [LAW_NURSERY_CANCELLED] = 0,
};

/* `TRANSITIONS` of law/admission/ticket.py. */
static const uint8_t LAW_PERMIT_MOVES[LAW_PERMITS] = {
    /* HELD at once: nobody waits, and it fits */
    [LAW_PERMIT_WAITS] = 1u << LAW_PERMIT_QUEUED | 1u << LAW_PERMIT_STOPS | 1u << LAW_PERMIT_HELD | 1u <<
        LAW_PERMIT_OVER,
    /* back to WAITS: paused before it was admitted */
    [LAW_PERMIT_QUEUED] = 1u << LAW_PERMIT_WAITS | 1u << LAW_PERMIT_STOPS | 1u << LAW_PERMIT_HELD | 1u <<
        LAW_PERMIT_OVER,
    [LAW_PERMIT_STOPS] = 1u << LAW_PERMIT_OVER,
    [LAW_PERMIT_HELD] = 1u << LAW_PERMIT_ASIDE | 1u << LAW_PERMIT_OVER,
    /* HELD at once: its task is asked to stop */
    [LAW_PERMIT_ASIDE] = 1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_RETURNS | 1u << LAW_PERMIT_OVER,
    /* back to ASIDE: paused before it was its turn */
    [LAW_PERMIT_RETURNS] = 1u << LAW_PERMIT_HELD | 1u << LAW_PERMIT_ASIDE | 1u << LAW_PERMIT_OVER,
    [LAW_PERMIT_OVER] = 0,
};
