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
static const uint8_t LAW_TICKET_MOVES[LAW_TICKETS] = {
    /* ADMITTED at once: no other ticket waits, and it fits */
    [LAW_TICKET_WAITING] = 1u << LAW_TICKET_QUEUED | 1u << LAW_TICKET_STOPPING | 1u << LAW_TICKET_ADMITTED | 1u <<
        LAW_TICKET_DONE,
    /* back to WAITING: paused before it was admitted */
    [LAW_TICKET_QUEUED] = 1u << LAW_TICKET_WAITING | 1u << LAW_TICKET_STOPPING | 1u << LAW_TICKET_ADMITTED | 1u <<
        LAW_TICKET_DONE,
    [LAW_TICKET_STOPPING] = 1u << LAW_TICKET_DONE,
    [LAW_TICKET_ADMITTED] = 1u << LAW_TICKET_LENT | 1u << LAW_TICKET_DONE,
    /* ADMITTED at once: its task is asked to stop */
    [LAW_TICKET_LENT] = 1u << LAW_TICKET_ADMITTED | 1u << LAW_TICKET_RETURNING | 1u << LAW_TICKET_DONE,
    /* back to LENT: paused before its turn came */
    [LAW_TICKET_RETURNING] = 1u << LAW_TICKET_ADMITTED | 1u << LAW_TICKET_LENT | 1u << LAW_TICKET_DONE,
    [LAW_TICKET_DONE] = 0,
};
