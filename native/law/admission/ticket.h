/* Tickets: where a task stands that has to ask for permission, and what may follow. After admission/ticket.py.
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
law_ticket_may_move(unsigned from, unsigned to)
{
    return from < LAW_TICKETS && to < LAW_TICKETS && (LAW_TICKET_MOVES[from] >> to & 1u) != 0;
}

/* Change the state of a ticket, which the table must allow. */
static inline void
law_ticket_move(uint8_t *state, LawTicket to)
{
    LAW_RULE(law_ticket_may_move(*state, to), "GATE-3");
    *state = (uint8_t)to;
}
