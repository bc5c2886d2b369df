/* States, outcomes, and the one table of legal moves. Mirrors src/bursar/law/state.py.
 *
 *                          ┌────────── yield ───────────┐
 *                          ▼                            │
 *     PENDING ──► READY ──► RUNNING ──► BLOCKED ──► READY
 *        │          │          ├──────► EXHAUSTED ─► READY        (recharged, and queued)
 *        │          │          ├──────► PAUSED ────► READY | PENDING
 *        ▼          ▼          ▼
 *       DONE       DONE       DONE        and from BLOCKED, EXHAUSTED, PAUSED when cancelled or cut off
 *
 * The functions say whether a move is legal; whoever owns the record makes it, in one place, after asking. The
 * engine asks before a compare-and-swap, the coroutine kernel before a store.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/transitions.h"

/* Whether a task may go from one state to the other. False for numbers that are no states. */
static inline bool
law_may_move(unsigned from, unsigned to)
{
    return from < LAW_STATES && to < LAW_STATES && (LAW_STATE_MOVES[from] >> to & 1u) != 0;
}

/* Whether a task in this state may end in this outcome. False for numbers that are none. */
static inline bool
law_may_end(unsigned state, unsigned outcome)
{
    return state < LAW_STATES && outcome < LAW_OUTCOMES && (LAW_STATE_ENDINGS[state] >> outcome & 1u) != 0;
}

/* The worse of two endings, for reports: ok < dropped < failed < cancelled < panicked. */
static inline LawOutcome
law_severer(LawOutcome a, LawOutcome b)
{
    return a > b ? a : b;
}
