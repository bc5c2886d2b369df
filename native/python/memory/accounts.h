/* Accounts (accounts.c): charge the running task for what it allocates, and refund the owners of what is freed.
 *
 * types.c and stretch.c enter and leave accounts, as meter.h describes. Only meter.c uses `running` and `account_...`. The
 * inline functions are the only way to charge an account: they have no slow twin.
 */

#pragma once

#include "python/cpython/compat.h"
#include "python/memory/account_set.h"
#include "python/memory/meter.h"
#include "python/memory/owners.h"

/* ---- what a kernel calls, with the GIL held */

/* To be called once before any account is entered: 0, or -1 with MemoryError set. */
int accounts_prepare(void);

/* The run has ended: leave its accounts in this thread, and close the set. */
void accounts_leave_all(AccountSet *accounts);

/* The task's code runs in this thread: charge its account until `meter_leave`, up to what its pool has left. */
void meter_enter(MeterAccount *account, int64_t left_bytes);
void meter_leave(MeterAccount *account);         /* the account that was entered before is charged again */
bool meter_entered(const MeterAccount *account); /* whether this thread charges it */
MeterAccount *meter_pause(void);                 /* charge no account until `meter_resume`; returns what to resume */
void meter_resume(MeterAccount *account);

uint64_t meter_tag(const MeterAccount *account);
int64_t meter_held_bytes(const MeterAccount *account);    /* all bytes that it owns */
int64_t meter_due_bytes(const MeterAccount *account);     /* to charge to its pool, or to refund if negative */
int64_t meter_refused_bytes(const MeterAccount *account); /* the last request that was refused; 0: none */
void meter_paid(MeterAccount *account, int64_t bytes);    /* its pool was charged, or refunded if negative */
void meter_end(MeterAccount *account);                    /* the task has ended: its first arena counts from now on */
bool meter_notify_once(MeterAccount *account); /* over its limit, and not notified: true once; the kernel then raises */

/* ---- the running task's account */

/* The account that this thread charges, and what was charged since it was loaded. */
typedef struct {
    MeterAccount *account;
    int64_t blocks_bytes;
    int64_t line_bytes; /* a charge that brings `blocks_bytes` over this line must call `account_admit` */
    int64_t arenas_bytes;
    int64_t entries;       /* of the owner table */
    PyThreadState *thread; /* that entered the account; NULL: no account is entered */
    bool notified;         /* a copy of the account's */
    bool probed;           /* a hook was called: see `hooks_work` in meter.c */
} Running;

/* Accessed with one offset from the thread pointer. A library that is loaded late has no faster thread-local variable. */
extern _Thread_local __attribute__((tls_model("initial-exec"), visibility("hidden"))) Running running;

/* Whether this thread runs a task and holds the GIL. Then it is the only such thread (OWNERS-2). The raw
 * domain is also used without the GIL, even inside a task, so this must be checked. The thread state of a running task is
 * alive, and only its own thread makes it the current one. */
static inline bool
is_alone(void)
{
    return running.thread != NULL && running.thread == PyThreadState_GetUnchecked();
}

bool account_admit(int64_t bytes); /* a request that crosses `line_bytes`: false if it is refused */
void account_charge_arena(int64_t bytes);
void account_shrink(MeterAccount *account, int64_t bytes); /* a block of its owner became smaller; any thread */
void account_refund(const Owned *owned);                   /* the cases that `account_release` does not handle */

/* Charge the running task. False: the request is refused, and nothing was charged. */
static inline bool
account_charge(int64_t bytes)
{
    if (bytes > running.line_bytes - running.blocks_bytes && !account_admit(bytes)) {
        return false;
    }
    running.blocks_bytes += bytes;
    return true;
}

/* Take a charge back. */
static inline void
account_uncharge(int64_t bytes)
{
    running.blocks_bytes -= bytes;
}

/* A block or an arena was freed: refund its owner. Any thread. */
static inline void
account_release(const Owned *owned)
{
    if (owned->account == running.account && !owned->arena && !running.notified) {
        account_uncharge(owned->bytes);
        running.entries--;
    } else {
        account_refund(owned);
    }
}
