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

/* Where a task stands between its spawn and its end. Stored in a uint8_t. */
typedef enum {
    LAW_STATE_PENDING = 0,   /* waits for permission (admission) */
    LAW_STATE_READY = 1,     /* has exactly one entry in exactly one lane */
    LAW_STATE_RUNNING = 2,   /* is being polled */
    LAW_STATE_BLOCKED = 3,   /* waits for something */
    LAW_STATE_EXHAUSTED = 4, /* could not pay; nothing was charged */
    LAW_STATE_PAUSED = 5,    /* was asked to stand still */
    LAW_STATE_DONE = 6,      /* has an outcome, holds nothing */
} LawState;

/* How a task ended, ordered by severity. Stored in a uint8_t. DROPPED never joins with the others in a nursery's
 * result: a dropped task did not start. */
typedef enum {
    LAW_OUTCOME_OK = 0,
    LAW_OUTCOME_DROPPED = 1,
    LAW_OUTCOME_FAILED = 2,
    LAW_OUTCOME_CANCELLED = 3,
    LAW_OUTCOME_PANICKED = 4,
} LawOutcome;

enum { LAW_STATES = 7, LAW_OUTCOMES = 5 };

/* Whether a task may go from one state to the other. False for numbers that are no states. */
static inline bool
law_may_move(unsigned from, unsigned to)
{
    enum {
        READY = 1u << LAW_STATE_READY,
        PAUSED = 1u << LAW_STATE_PAUSED,
        DONE = 1u << LAW_STATE_DONE,
    };
    static const uint8_t legal[LAW_STATES] = {
        [LAW_STATE_PENDING] = READY | PAUSED | DONE,
        [LAW_STATE_READY] = 1u << LAW_STATE_RUNNING | PAUSED | DONE,
        [LAW_STATE_RUNNING] = READY | 1u << LAW_STATE_BLOCKED | 1u << LAW_STATE_EXHAUSTED | PAUSED | DONE,
        [LAW_STATE_BLOCKED] = READY | PAUSED | DONE,
        [LAW_STATE_EXHAUSTED] = READY | PAUSED | DONE,
        [LAW_STATE_PAUSED] = READY | 1u << LAW_STATE_PENDING | DONE,
        [LAW_STATE_DONE] = 0,
    };
    return from < LAW_STATES && to < LAW_STATES && (legal[from] >> to & 1u) != 0;
}

/* Whether a task in this state may end in this outcome. False for numbers that are none. */
static inline bool
law_may_end(unsigned state, unsigned outcome)
{
    enum {
        CANCELLED = 1u << LAW_OUTCOME_CANCELLED,
        FROM_OUTSIDE = CANCELLED | 1u << LAW_OUTCOME_FAILED,
    };
    static const uint8_t endings[LAW_STATES] = {
        [LAW_STATE_PENDING] = 1u << LAW_OUTCOME_DROPPED | CANCELLED,
        [LAW_STATE_READY] = CANCELLED, /* cancelled before its first poll */
        [LAW_STATE_RUNNING] = 1u << LAW_OUTCOME_OK | FROM_OUTSIDE | 1u << LAW_OUTCOME_PANICKED,
        [LAW_STATE_BLOCKED] = FROM_OUTSIDE,
        [LAW_STATE_EXHAUSTED] = FROM_OUTSIDE,
        [LAW_STATE_PAUSED] = FROM_OUTSIDE,
        [LAW_STATE_DONE] = 0,
    };
    return state < LAW_STATES && outcome < LAW_OUTCOMES && (endings[state] >> outcome & 1u) != 0;
}

/* The worse of two endings, for reports: ok < dropped < failed < cancelled < panicked. */
static inline LawOutcome
law_severer(LawOutcome a, LawOutcome b)
{
    return a > b ? a : b;
}
