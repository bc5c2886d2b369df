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
 * The coroutine kernel changes a state by `law_state_move`, in its fast paths too. The engine keeps the state in an atomic
 * word: it asks `law_may_move` before a compare-and-swap (TASK-1 of engine/task.h).
 *
 * TRANSITION-1  a state changes only from the state that the caller names, by a move that the table allows
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/transitions.h"
#include "law/rule.h"

/* Whether a task may go from one state to the other. False for numbers that are not states. */
static inline bool
law_may_move(unsigned from, unsigned to)
{
    return from < LAW_STATES && to < LAW_STATES && (LAW_STATE_MOVES[from] >> to & 1u) != 0;
}

/* Change a state. If both states are constants, the compiler looks up the table, and one comparison is left. */
static inline void
law_state_move(uint8_t *state, LawState from, LawState to)
{
    LAW_RULE(*state == from && law_may_move(from, to), "TRANSITION-1");
    *state = (uint8_t)to;
}

/* Whether a task in this state may end with this outcome. False for numbers that are neither. */
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
