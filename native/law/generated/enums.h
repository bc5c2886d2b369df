/* The enumerations of the law. Records store each of them in a uint8_t.
 *
 * Written by scripts/generate_c.py from the law in Python: do not edit.
 */
#pragma once

#include <stdint.h>

/* Where a task is in its life, from its spawn to its end. `State` of law/state.py. */
typedef enum {
    LAW_STATE_PENDING = 0, /* waits for permission (admission) */
    LAW_STATE_READY = 1, /* has exactly one entry in exactly one lane */
    LAW_STATE_RUNNING = 2, /* is being polled */
    LAW_STATE_BLOCKED = 3, /* waits; `task.wait` says for what */
    LAW_STATE_EXHAUSTED = 4, /* could not pay; nothing was charged */
    LAW_STATE_PAUSED = 5, /* was paused */
    LAW_STATE_DONE = 6, /* has an outcome, holds nothing */
} LawState;
enum { LAW_STATES = 7 };

/* How a task ended, ordered by severity for reports that name the worst ending. `OutcomeKind` of law/state.py. */
typedef enum {
    LAW_OUTCOME_OK = 0,
    LAW_OUTCOME_DROPPED = 1,
    LAW_OUTCOME_FAILED = 2,
    LAW_OUTCOME_CANCELLED = 3,
    LAW_OUTCOME_PANICKED = 4,
} LawOutcome;
enum { LAW_OUTCOMES = 5 };

/* Whether a task has a queue entry, runs, or was woken while it runs. `WakeState` of law/wake.py. */
typedef enum {
    LAW_WAKE_IDLE = 0,
    LAW_WAKE_QUEUED = 1,
    LAW_WAKE_RUNNING = 2,
    LAW_WAKE_RUNNING_WOKEN = 3,
    LAW_WAKE_DONE = 4,
} LawWake;
enum { LAW_WAKES = 5 };

/* The effect of a wake. `Notice` of law/wake.py. */
typedef enum {
    LAW_NOTICE_ENQUEUE = 0, /* the caller must put the task in a lane */
    LAW_NOTICE_MERGED = 1, /* an earlier wake of this generation has queued the task already */
    LAW_NOTICE_NOTED = 2, /* the task runs or is paused: it is queued when the poll or the pause ends */
    LAW_NOTICE_STALE = 3, /* the task is finished, or in another generation */
} LawNotice;
enum { LAW_NOTICES = 4 };

/* The lane from which a decision took its task. The numbers are part of the chain. `Lane` of law/lanes.py. */
typedef enum {
    LAW_LANE_IDLE = 0,
    LAW_LANE_CANCEL = 1,
    LAW_LANE_TIMED = 2,
    LAW_LANE_READY = 3,
    LAW_LANE_STEAL = 4,
    LAW_LANE_CANCEL_FALLBACK = 5,
} LawLane;
enum { LAW_LANES = 6 };

/* How a thief chooses its victims. `StealPolicy` of law/steal.py. */
typedef enum {
    LAW_STEAL_RANDOM = 0,
    LAW_STEAL_ROUND_ROBIN = 1,
    LAW_STEAL_LEAST_LOADED = 2,
} LawStealPolicy;
enum { LAW_STEAL_POLICIES = 3 };

/* The state of a nursery. The C interface uses the same numbers. `NurseryState` of law/nursery.py. */
typedef enum {
    LAW_NURSERY_OPEN = 0,
    LAW_NURSERY_CLOSING = 1,
    LAW_NURSERY_CANCELLING = 2,
    LAW_NURSERY_CLOSED = 3,
    LAW_NURSERY_CANCELLED = 4,
} LawNurseryState;
enum { LAW_NURSERY_STATES = 5 };

/* How far the cancellation of a scope has come. `CancelPhase` of law/cancel.py. */
typedef enum {
    LAW_PHASE_IDLE = 0,
    LAW_PHASE_REQUESTED = 1,
    LAW_PHASE_DRAINING = 2,
    LAW_PHASE_FINALIZED = 3,
} LawCancelPhase;
enum { LAW_PHASES = 4 };

/* Why something is cancelled. `CancelKind` of law/cancel.py. */
typedef enum {
    LAW_CANCEL_USER = 0,
    LAW_CANCEL_TIMEOUT = 1,
    LAW_CANCEL_PARENT = 2,
    LAW_CANCEL_SIBLING = 3,
    LAW_CANCEL_BUDGET = 4,
    LAW_CANCEL_DROP = 5,
    LAW_CANCEL_SHUTDOWN = 6,
    LAW_CANCEL_DEPENDENCY = 7, /* a dependency of the task did not succeed */
} LawCancelKind;
enum { LAW_CANCEL_KINDS = 8 };
#define LAW_CANCEL_NAMES {"user", "timeout", "parent", "sibling", "budget", "drop", "shutdown", "dependency"}

/* What a timer does when it fires. `TimerKind` of law/timers.py. */
typedef enum {
    LAW_TIMER_WAKE = 0, /* wake the task that sleeps */
    LAW_TIMER_DEADLINE = 1, /* request cancellation of the scope */
    LAW_TIMER_CLEANUP = 2, /* the task overran its cleanup */
    LAW_TIMER_PERMIT = 3, /* the task's ticket has waited long enough */
} LawTimerKind;
enum { LAW_TIMER_KINDS = 4 };

/* The result of billing a task. `Bill` of law/ledger.py. */
typedef enum {
    LAW_BILL_PAID = 0,
    LAW_BILL_SUSPENDED = 1, /* the poll is over: the task is EXHAUSTED, or on its way back to the queue */
    LAW_BILL_CUT = 2, /* the task overran its cleanup and must be closed */
} LawBill;
enum { LAW_BILLS = 3 };

/* The state of a ticket. `TicketState` of law/admission/ticket.py. */
typedef enum {
    LAW_TICKET_WAITING = 0,
    LAW_TICKET_QUEUED = 1,
    LAW_TICKET_STOPPING = 2,
    LAW_TICKET_ADMITTED = 3,
    LAW_TICKET_LENT = 4,
    LAW_TICKET_RETURNING = 5,
    LAW_TICKET_DONE = 6,
} LawTicket;
enum { LAW_TICKETS = 7 };
