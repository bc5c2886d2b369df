/* The record of a native task, and the one word that holds its state.
 *
 *     word = generation << 16 | state << 8 | wake          law/state.h, law/wake.h
 *
 *     RUNNING ──rests──► BLOCKED, EXHAUSTED or PAUSED ──notified──► RUNNING ──► … ──► DONE
 *        └ notified: RUNNING_WOKEN, and the next rest ends at once
 *
 * To *rest* is to leave the worker until a wake. Every thread that wakes a task changes the word by compare-and-swap,
 * with the law's own function on a copy. A wake while the task runs is noted in the word, and the task finds the note
 * when it is about to rest. So no wake is lost, and no task is woken before its registers are saved: the word says
 * BLOCKED only after that (RUNNER-4 of native/fiber).
 *
 * The word does not distinguish a task in a queue from a running task: a waker would do the same for both. So READY and
 * RUNNING are one state here, and neither a dispatch nor a yield writes the word.
 *
 * TASK-1  only the functions below change the word, and every change of state is in the table of law/state.h
 * TASK-2  the thread that changes a word to RUNNING puts the task into exactly one queue. No other thread does, except
 *     the task's own worker at a yield
 * TASK-3  a wake is a hint: every wait is a loop that checks its condition again. So a wake that comes late, even for
 *     another task in the same record, costs a turn and nothing else
 * TASK-4  a task sees what a waker wrote before the wake, before it next rests. For every wake and every rest is a
 *     read-modify-write of the word, and a thread that takes a task out of a queue has seen what its waker wrote
 * TASK-5  the record has at most TASK_BYTES bytes, and no stack until it runs
 *
 * Rejected: a lock per task (two more read-modify-writes per turn); a boolean "blocked" that is set before the
 * registers are saved; freeing records (then late wakes would have to be awaited); a state "queued" between woken and
 * running (two more read-modify-writes per turn, only to merge wakes that the note merges as well).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/atomics.h"
#include "engine/inject.h"
#include "engine/slab.h"
#include "fiber/runner.h"
#include "hints.h"
#include "law/cancel.h"
#include "law/lanes.h"
#include "law/rule.h"
#include "law/state.h"
#include "law/wake.h"

struct Nursery;
struct Purse;
struct Worker;
struct Scheduler;

/* How a task, or a nursery as a whole, ended, as the C interface reports it: the law's outcomes, and END_BUDGET as a
 * separate kind of failure. */
typedef enum {
    END_OK = 0,
    END_FAILED = 1,
    END_CANCELLED = 2,
    END_PANICKED = 3,
    END_BUDGET = 4,
    END_NONE = 5, /* nothing was awaited yet */
} EndKind;

/* What a call of a task may return. The first four are those of the C interface. */
enum {
    ENGINE_OK = 0,
    ENGINE_CANCELLED = -1,
    ENGINE_PANICKED = -2,
    ENGINE_BUDGET = -3,
    ENGINE_PENDING = -4,
    ENGINE_INVALID = -5,   /* no such record, or the caller may not use it */
    ENGINE_CLOSED = -6,    /* the channel is closed, or the nursery takes no children */
    ENGINE_MEMORY = -7,    /* no memory, no stack, no thread */
    ENGINE_AGAIN = -8,     /* it would have to wait */
    ENGINE_TIMEOUT = -9,   /* the time limit has passed */
    ENGINE_STOPPING = -10, /* the scheduler shuts down */
};

/* An ending with its details. */
typedef struct {
    EndKind kind;
    uint64_t task_id; /* 0: no particular task */
    int64_t code;     /* what it returned, or the code of its panic */
} Ending;

/* Called once, when the task has ended, on a worker's stack. It must be short and must not wait. */
typedef void (*TaskDone)(void *arg, const Ending *ending);

/* Facts about a task, one byte each; at the end all of them are tested at once (`all`). */
typedef union {
    struct {
        bool linked;           /* in its nursery's list */
        bool cancel_delivered; /* a call returned ENGINE_CANCELLED */
        bool exceeded;         /* a call returned ENGINE_BUDGET */
        bool cut_off;
        bool own_purse;
        bool has_listener; /* `value_out` or `done` is set */
        uint8_t kind;      /* EndKind, once it has ended; END_OK is 0 */
    };
    uint64_t all;
} TaskMarks;

#define TASK_BYTES 224 /* so the record with its entry in a queue has less than 256 bytes (TASK-5) */

/* The fields that every task uses come first: a task that never waits touches little more. */
typedef struct Task {
    SlabHead head;
    struct fiber fiber;
    atomic_u64 word;
    struct Nursery *nursery; /* its parent */
    struct Purse *purse;     /* the purse that it pays from: its own, or its nursery's */
    struct Nursery *opened;  /* the innermost nursery that it has opened */
    int64_t ticks_left;      /* ops that are drawn and not used; its address is the C program's tick counter */
    TaskMarks marks;
    InjectLink inject; /* in an injector; a covered task may be in one while its stack runs (HELP-2) */
    uint32_t number;   /* in its nursery: see task_id */
    bool above;        /* it was called above the frames of its nursery's owner (help_children.c) */
    bool has_awaited;
    bool has_drawn;         /* ops, in this turn */
    atomic_u32 cancel;      /* = generation of the record: this task must stop; + 1: it must pause (task_requests.h) */
    atomic_u32 covered;     /* not 0: its child waits above it on its stack, and so does it (help_children.c) */
    uint32_t requests_seen; /* value of `requests` up to which it has looked; one less if it must stop (HELP-1) */
    uint32_t cleanup_left;  /* valid once a call was refused */
    LawLink nursery_link;   /* in its nursery's list, from its first wait to its end */
    int64_t *value_out; /* this and the next two, if it `has_listener`: where to store the value at the end, or NULL */
    TaskDone done;
    void *done_arg;
    union {
        struct { /* for adapters; read before any other call */
            int64_t (*entry)(void *arg);
            void *arg;
        };
        Ending awaited; /* the result of the last nursery that it has awaited, if it `has_awaited` */
    };
} Task;

#ifndef BURSAR_EXPLORE /* its cells are larger */
_Static_assert(sizeof(Task) <= TASK_BYTES, "TASK-5");
#endif

#define TASK_WORD(generation, state, wake) ((uint64_t)(generation) << 16 | (uint64_t)(state) << 8 | (uint64_t)(wake))

static inline LawState
task_word_state(uint64_t word)
{
    return (LawState)(word >> 8 & 0xff);
}

static inline LawState
task_state(const Task *task)
{
    return task_word_state(load_u64(&task->word, RELAXED));
}

/* A new task is RUNNING from the beginning. No other thread knows it (ATOMICS-4), but a late wake may come (TASK-3). */
static inline void
task_word_begin(Task *task)
{
    uint64_t generation = (load_u64(&task->word, RELAXED) >> 16) + 1;
    store_u64(&task->word, TASK_WORD(generation, LAW_STATE_RUNNING, LAW_WAKE_RUNNING), RELAXED);
}

/* The task was taken from its queue and runs. */
static inline void
task_dispatched(const Task *task)
{
    LAW_RULE(task_state(task) == LAW_STATE_RUNNING, "TASK-1");
}

/* The law's two steps from a wait to a turn: the task is queued, and the entry is taken. */
static inline uint64_t
task_word_woken(uint64_t word, uint8_t wake)
{
    uint64_t generation = word >> 16;
    law_begin_poll(&wake, &generation);
    return TASK_WORD(generation, LAW_STATE_RUNNING, wake);
}

/* What the end of a turn makes of a word, by the law. True: the task was woken already. */
static inline bool
task_word_rests(uint64_t *word, uint8_t wake, LawState from, LawState state)
{
    bool woken = law_end_poll(&wake);
    LAW_RULE(law_may_move(from, state), "TASK-1");
    *word = woken ? task_word_woken(*word, wake) : TASK_WORD(*word >> 16, state, wake);
    return woken;
}

/* The task ran, its registers are saved, and it is to wait in `state` (BLOCKED, EXHAUSTED or PAUSED). True: it was
 * woken already, and the caller must put it into a queue. False: it no longer belongs to the caller. */
static inline bool
task_rests(Task *task, LawState state)
{
    uint64_t word = load_u64(&task->word, RELAXED);
    for (;;) {
        uint64_t to = word;
        bool plain = (uint16_t)word ==
                     (LAW_STATE_RUNNING << 8 | LAW_WAKE_RUNNING); /* the usual case, which the compiler can evaluate */
        bool woken = LIKELY(plain) ? task_word_rests(&to, LAW_WAKE_RUNNING, LAW_STATE_RUNNING, state)
                                   : task_word_rests(&to, (uint8_t)word, task_word_state(word), state);
        if (cas_u64(&task->word, &word, to, ACQ_REL)) {
            return woken;
        }
    }
}

/* What one wake makes of a word, by the law. */
static inline LawNotice
task_word_notified(uint64_t *word, uint8_t wake, LawState state, bool from_hold)
{
    bool held = state == LAW_STATE_EXHAUSTED || state == LAW_STATE_PAUSED;
    bool waits = state == LAW_STATE_BLOCKED || (from_hold && held);
    LawNotice notice = law_notify(&wake, *word >> 16, *word >> 16, waits);
    if (notice == LAW_NOTICE_ENQUEUE) {
        LAW_RULE(law_may_move(state, LAW_STATE_READY), "TASK-1");
        *word = task_word_woken(*word, wake);
    } else {
        *word = TASK_WORD(*word >> 16, state, wake);
    }
    return notice;
}

/* Take one wake. `from_hold` says that it also ends the wait of an EXHAUSTED or PAUSED task, as a recharge, a resume
 * and a cancel request do. True: the caller must put the task into a queue (TASK-2). Any thread. */
static inline bool
task_notified(Task *task, bool from_hold)
{
    uint64_t word = load_u64(&task->word, RELAXED);
    for (;;) {
        uint64_t to = word;
        LawNotice notice = task_word_notified(&to, (uint8_t)word, task_word_state(word), from_hold);
        if (notice == LAW_NOTICE_STALE) {
            return false;
        }
        if (cas_u64(&task->word, &word, to, ACQ_REL)) { /* TASK-4: also if nothing changes */
            return notice == LAW_NOTICE_ENQUEUE;
        }
    }
}

/* The same for a task that is most likely BLOCKED: for that case the compiler evaluates the law's function. */
static inline bool
task_unblocked(Task *task)
{
    uint64_t word = load_u64(&task->word, RELAXED), to = word;
    if (LIKELY((uint16_t)word == (LAW_STATE_BLOCKED << 8 | LAW_WAKE_IDLE))) {
        LawNotice notice = task_word_notified(&to, LAW_WAKE_IDLE, LAW_STATE_BLOCKED, false);
        LAW_RULE(notice == LAW_NOTICE_ENQUEUE, "TASK-1");
        if (cas_u64(&task->word, &word, to, ACQ_REL)) {
            return true;
        }
    }
    return task_notified(task, false);
}

/* The task has ended. */
static inline void
task_word_end(Task *task, LawOutcome outcome)
{
    uint64_t word = load_u64(&task->word, RELAXED);
    LawState state = task_word_state(word);
    bool may_end = state == LAW_STATE_RUNNING ? law_may_end(LAW_STATE_RUNNING, outcome) : law_may_end(state, outcome);
    LAW_RULE(may_end, "TASK-1"); /* mostly RUNNING, for which the compiler knows the answer */
    store_u64(&task->word, TASK_WORD(word >> 16, LAW_STATE_DONE, LAW_WAKE_DONE),
              RELEASE); /* a noted wake has no effect any more */
}

/* The task of an injector's link. */
static inline Task *
task_of_link(InjectLink *link)
{
    return LAW_RECORD(link, Task, inject);
}

/* Whether this very task was asked to stop. Its nursery may have been cancelled as well: see nursery.h. */
static inline bool
task_cancel_requested(const Task *task)
{
    return load_u32(&task->cancel, RELAXED) == load_u32(&task->head.generation, RELAXED);
}

/* Whether this very task was asked to pause. The generation of a record in use is odd (SLAB-2), so `generation + 1`
 * belongs to no other task; a cancel request replaces it. */
static inline bool
task_paused(const Task *task)
{
    return load_u32(&task->cancel, RELAXED) == load_u32(&task->head.generation, RELAXED) + 1;
}

/* The law's outcome for an ending. */
static inline LawOutcome
ending_outcome(EndKind kind)
{
    static const uint8_t outcomes[] = {
        [END_OK] = LAW_OUTCOME_OK,
        [END_FAILED] = LAW_OUTCOME_FAILED,
        [END_CANCELLED] = LAW_OUTCOME_CANCELLED,
        [END_PANICKED] = LAW_OUTCOME_PANICKED,
        [END_BUDGET] = LAW_OUTCOME_FAILED,
    };
    return (LawOutcome)outcomes[kind];
}
