/* Waking: how many wakes become one queue entry. Mirrors src/bursar/law/wake.py.
 *
 *     IDLE ──notify──► QUEUED ──dispatch──► RUNNING ──notify──► RUNNING_WOKEN
 *      ▲                 ▲                    │ poll ends             │ poll ends
 *      └─────────────────┼────── blocks ──────┘                       │
 *                        └──────────────── queued again ◄─────────────┘      DONE absorbs everything
 *
 * A generation is the number of a task's poll. A waker holds (task, generation): the wake counts only for the wait at
 * the end of that poll.
 *
 * WAKE-1  DONE is final: no wake state follows it
 *
 * The caller passes the wake state, one byte. The coroutine kernel passes the byte in its record. The engine passes a
 * copy and stores it by compare-and-swap. These functions read and write nothing else, so they may be repeated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/enums.h"
#include "law/rule.h"

/* Take one wake, meant for poll `generation` of a task that is in `task_generation`; `waits` says that the task has a
 * wait which a wake can end. Only ENQUEUE asks the caller to do anything. */
static inline LawNotice
law_notify(uint8_t *wake, uint64_t task_generation, uint64_t generation, bool waits)
{
    if (*wake == LAW_WAKE_DONE || generation != task_generation) {
        return LAW_NOTICE_STALE;
    }
    switch (*wake) {
    case LAW_WAKE_IDLE:
        if (!waits) {
            return LAW_NOTICE_STALE; /* no wake can end its wait: a task on hold needs a recharge */
        }
        *wake = LAW_WAKE_QUEUED;
        return LAW_NOTICE_ENQUEUE;
    case LAW_WAKE_RUNNING:
        *wake = LAW_WAKE_RUNNING_WOKEN;
        return LAW_NOTICE_NOTED;
    default:
        return LAW_NOTICE_MERGED;
    }
}

/* The task becomes READY and is queued, by a wake or for another reason. */
static inline void
law_wake_queued(uint8_t *wake)
{
    LAW_RULE(*wake != LAW_WAKE_DONE, "WAKE-1");
    *wake = LAW_WAKE_QUEUED;
}

/* The same for a task whose move to READY was just checked: no task leaves the state DONE, so WAKE-1 holds. */
static inline void
law_wake_queued_fast(uint8_t *wake)
{
    *wake = LAW_WAKE_QUEUED;
}

/* The task has ended: every later wake is stale. */
static inline void
law_wake_done(uint8_t *wake)
{
    *wake = LAW_WAKE_DONE;
}

/* The one entry was taken: a new generation starts. */
static inline void
law_begin_poll(uint8_t *wake, uint64_t *generation)
{
    *wake = LAW_WAKE_RUNNING;
    *generation += 1;
}

/* The task stops running and waits. True: it was woken meanwhile, and must be queued at once. */
static inline bool
law_end_poll(uint8_t *wake)
{
    bool woken = *wake == LAW_WAKE_RUNNING_WOKEN;
    *wake = woken ? LAW_WAKE_QUEUED : LAW_WAKE_IDLE;
    return woken;
}
