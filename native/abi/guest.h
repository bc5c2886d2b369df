/* Guests: functions that another scheduler has run here, and the mailbox by which it hears of them.
 *
 * For `bursar.native` of the Python package; no part of the interface in include/. The other scheduler has a loop on a
 * thread of its own. It opens a mailbox with a file that its loop watches, spawns guests, and when the file can be read
 * it takes the letters: a guest has ended, is short of money, or stands still. Nothing here calls back, and no worker
 * ever waits for that thread: an ending is a record in a list and, if the list was empty, eight bytes into the file.
 *
 * A guest is a child of one nursery that the runtime opens for all of them: neither its failure nor its end concerns the
 * others. Its money is its lender's (engine/lender.h), in portions.
 *
 * GUEST-1  a guest has one letter about its end, and it is the last one; when that is taken the guest is gone
 * GUEST-2  the file is written to when the list becomes non-empty, and not again until it has been emptied
 * GUEST-3  what can fail fails in guest_spawn: an ending needs no memory
 * GUEST-4  a guest of which a letter says that it stands does, until it is resumed or asked to stop: the request and
 *     its number are noted under the lock under which the letter is written
 *
 * Rejected: a callback into the other scheduler. It would run on a worker's stack, wait for that scheduler's locks
 * (CPython's is held for milliseconds), and keep every other task of the worker waiting with it.
 */
#pragma once

#include "include/janus_rt.h"

typedef struct Mailbox Mailbox;
typedef struct Guest Guest;

enum { GUEST_SHORT = 16, GUEST_PAUSED = 20 }; /* beside the values of janus_kind */

typedef struct {
    uint64_t key;  /* the guest's, as it was spawned with */
    int32_t kind;  /* a janus_kind: it has ended. GUEST_SHORT: it, or a task of its own, holds for want of money.
                           GUEST_PAUSED: it stands still, as it was asked to */
    int32_t panic; /* if it panicked: 1 it said so, 2 out of stack, 3 ran over its stack */
    int64_t
        code; /* its value, or what it panicked with; GUEST_SHORT: 1 if it holds itself; GUEST_PAUSED: which pause */
    int64_t amounts[5]; /* what it has spent; or what it lacks, 0 where it does not */
} BursarMessage;

/* A mailbox that writes eight bytes, a 1 as a counter, into `fd`, which is kept by the caller and does not block. NULL
 * without memory. */
JANUS_API Mailbox *bursar_mailbox_open(int fd);

/* Take up to `n` letters, oldest first. How many there were. */
JANUS_API size_t bursar_mailbox_take(Mailbox *mailbox, BursarMessage *messages, size_t n);

/* JANUS_OK, or JANUS_AGAIN while it has guests. After this the file may be closed. */
JANUS_API int bursar_mailbox_close(Mailbox *mailbox);

/* Run `fn(arg)`. The runtime is started if it is not up. `name` is copied; `budget` states all five components, and is
 * the first portion; NULL: as much as can be counted. Answers the guest, as an address, which is good until its last letter
 * is taken, and that is not before this returns if both are done on one thread. Less than 0: JANUS_NO_MEMORY; JANUS_INVALID;
 * JANUS_CLOSED if the runtime is a deterministic one, which runs nothing by itself; JANUS_STOPPING. */
JANUS_API intptr_t bursar_guest_spawn(Mailbox *mailbox, uint64_t key, janus_task_fn fn, void *arg, const char *name,
                                      size_t stack_bytes, const janus_budget *budget);

/* Ask it to stop. */
JANUS_API void bursar_guest_cancel(Guest *guest);

/* Ask it to stand still: it does at its next call that could wait, or where it waits, and a letter says so, with this
 * number, which is another each time and not 0. Nothing comes of it if it is to stop, or has ended. */
JANUS_API void bursar_guest_pause(Guest *guest, int64_t number);

/* Let it go on. */
JANUS_API void bursar_guest_resume(Guest *guest);

/* Another portion. JANUS_OK; JANUS_INVALID if it has ended; JANUS_BUDGET_EXCEEDED if the runtime was started with too
 * little for that. */
JANUS_API int bursar_guest_fill(Guest *guest, const janus_budget *amount);

/* Nothing more of what it has asked for: it is told so. */
JANUS_API void bursar_guest_refuse(Guest *guest);
