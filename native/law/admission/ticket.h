/* Tickets: the states of a task at a gate, and the legal moves. Mirrors src/bursar/law/admission/ticket.py.
 *
 *     WAITING ◄──► QUEUED ──► ADMITTED ──► DONE     every state may move to DONE. When its task is asked to stop,
 *                               ▲ ▼                 WAITING and QUEUED become STOPPING, LENT and RETURNING ADMITTED
 *                       LENT ◄──► RETURNING
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
