/* Fiber calls: C functions that the tasks of another scheduler run on the engine, and the mailbox that reports on them.
 *
 * Only `bursar.native` of the Python package uses these functions (src/bursar/fibers/mailbox.py). They are exported,
 * but they are no part of the interface in include/, and change without notice. The other scheduler has a loop on its
 * own thread. It opens a mailbox with a file that the loop watches, and spawns fiber calls. When the file becomes
 * readable, the loop takes the messages: a call has ended, is short of budget, or is paused. The engine calls no
 * function of the other scheduler, and no worker waits for its thread: a message is a record in a list, and eight bytes
 * in the file if the list was empty.
 *
 * The runtime has one nursery for all fiber calls. The failure or the end of a call does not concern the other calls.
 * Each call has a lender (engine/lender.h), which gives it budget in portions.
 *
 * MAILBOX-1  a call has one message about its end; that message is the last one, and taking it frees the call
 * MAILBOX-2  the file is written when the list becomes non-empty, and not again until the list was emptied
 * MAILBOX-3  only bursar_fiber_call_spawn can fail for lack of memory: the record of a call has room for all its
 *     messages
 * MAILBOX-4  a call that a message calls paused stays paused until it is resumed or asked to stop: the request to pause
 *     and its number are written under the lock under which the message is posted
 *
 * Rejected: a callback into the other scheduler. It would run on a worker's stack and wait for that scheduler's locks.
 * CPython holds its lock for milliseconds, and every other task of the worker would wait as long.
 */
#pragma once

#include "include/janus_rt.h"

typedef struct FiberMailbox FiberMailbox;
typedef struct FiberCall FiberCall;

enum {
    MESSAGE_SHORT = 16,
    MESSAGE_PAUSED = 20
}; /* kinds of messages beside those of janus_kind, which report an end */

typedef struct {
    uint64_t key;  /* the number that the call was spawned with */
    int32_t kind;  /* a janus_kind: the call has ended. MESSAGE_SHORT: the call, or a task below it, waits for budget.
                           MESSAGE_PAUSED: the call is paused */
    int32_t panic; /* if the call panicked: 1 by janus_panic, 2 stack overflow, 3 damaged stack */
    int64_t code;  /* the call's value, or the code of its panic. MESSAGE_SHORT: 1 if the call itself waits, 0 if only
                           a task below it does. MESSAGE_PAUSED: the number of the pause */
    int64_t amounts[5]; /* of an end: what the call has spent. MESSAGE_SHORT: what it lacks, 0 where it lacks nothing */
} FiberMessage;

/* Make a mailbox that writes eight bytes, the number 1, into `fd` when messages are there. `fd` must not block. The
 * caller keeps owning it, and closes it after the mailbox. Returns NULL without memory. */
JANUS_API FiberMailbox *bursar_mailbox_open(int fd);

/* Take up to `n` messages, oldest first. Returns how many were taken. */
JANUS_API size_t bursar_mailbox_take(FiberMailbox *mailbox, FiberMessage *messages, size_t n);

/* Free the mailbox. Returns JANUS_OK, or JANUS_AGAIN while it has a call whose last message was not taken. */
JANUS_API int bursar_mailbox_close(FiberMailbox *mailbox);

/* Run `fn(arg)`. Starts the runtime if there is none. `name` is copied. `budget` is the first portion and must limit
 * all five components; NULL is the largest amount that can be counted. Returns the address of the call, which is valid
 * until its last message is taken. Take messages on the same thread, or under the same lock, so that this is not before
 * the return. Fails with a number below 0: JANUS_NO_MEMORY, JANUS_INVALID, JANUS_STOPPING, or JANUS_CLOSED if the
 * runtime is deterministic: such a runtime has no thread that would run the call. */
JANUS_API intptr_t bursar_fiber_call_spawn(FiberMailbox *mailbox, uint64_t key, janus_task_fn fn, void *arg,
                                           const char *name, size_t stack_bytes, const janus_budget *budget);

/* Ask the call to stop. Does nothing if it has ended. */
JANUS_API void bursar_fiber_call_cancel(FiberCall *call);

/* Ask the call to pause: where it waits, or at its next function that could wait. A message with `number` says when
 * it has. The caller chooses a new number, not 0, for each pause. There is no message if the call has ended or must
 * stop. */
JANUS_API void bursar_fiber_call_pause(FiberCall *call, int64_t number);

/* Let the call run on. */
JANUS_API void bursar_fiber_call_resume(FiberCall *call);

/* Give the call another portion. Returns JANUS_OK; JANUS_INVALID if the call has ended; JANUS_BUDGET_EXCEEDED if the
 * runtime was started with a budget that is too small. */
JANUS_API int bursar_fiber_call_fill(FiberCall *call, const janus_budget *amount);

/* Answer the call's request for budget with no: each function that waits for that budget returns
 * JANUS_BUDGET_EXCEEDED. */
JANUS_API void bursar_fiber_call_refuse(FiberCall *call);
