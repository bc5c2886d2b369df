/* Accounts (accounts.c): what each task has allocated, and the running task's account as the hooks of meter.c see it.
 *
 * types.c and stretch.c use books and accounts as meter.h describes; only meter.c uses `here` and `account_...`. The inline
 * functions are the only way to charge an account: they have no slow twin.
 */

#pragma once

#include "python/cpython/compat.h"
#include "python/memory/meter.h"
#include "python/memory/owners.h"

/* ---- books and accounts: see the comment of meter.h */

AccountSet *account_set_make(MeterTell tell, void *context);
void account_set_close_all(AccountSet *accounts);
void account_set_free(AccountSet *accounts);
MeterAccount *meter_account_new(AccountSet *accounts, uint64_t tag);
void meter_account_free(MeterAccount *account);
bool meter_changed(AccountSet *accounts, MeterAccount **account);
bool meter_quiet(const AccountSet *accounts);

void meter_enter(MeterAccount *account, int64_t left_bytes);
void meter_leave(MeterAccount *account);
bool meter_entered(const MeterAccount *account); /* and charged, in this thread */
MeterAccount *meter_pause(void);
void meter_resume(MeterAccount *account);

uint64_t meter_tag(const MeterAccount *account);
int64_t meter_held_bytes(const MeterAccount *account);
int64_t meter_due_bytes(const MeterAccount *account);
int64_t meter_refused_bytes(const MeterAccount *account);
void meter_paid(MeterAccount *account, int64_t bytes);
void meter_end(MeterAccount *account);
bool meter_untold(MeterAccount *account);

/* ---- the running task's account */

/* The account that this thread charges, and what it has charged since it was loaded. */
typedef struct {
    MeterAccount *account;
    int64_t blocks_bytes;
    int64_t line_bytes; /* who would bring `blocks_bytes` over it must look */
    int64_t arenas_bytes;
    int64_t entries;       /* of the owner table */
    PyThreadState *thread; /* that entered the account; NULL while none is */
    bool told;             /* as the account's */
    bool probed;           /* a hook was called: see `reached` in meter.c */
} Here;

/* Reached by one offset from the thread pointer: what is loaded late has no faster way to a variable of a thread. */
extern _Thread_local __attribute__((tls_model("initial-exec"), visibility("hidden"))) Here here;

/* Whether this thread runs a task and holds the GIL, and so is the only one that does (invariant 2 of owners.c). The
 * raw domain is for those without the GIL too, inside a task as well, so it must be asked. The thread state of a task
 * that runs is alive, and nobody but its own thread ever makes it the current one. */
static inline bool
here_alone(void)
{
    return here.thread != NULL && here.thread == PyThreadState_GetUnchecked();
}

bool account_admit(int64_t bytes);
void account_charge_arena(int64_t bytes);
void account_shrink(MeterAccount *account, int64_t bytes);
void account_refund(const Owned *owned);

/* Charges the running task. False if it is refused; then nothing was charged. */
static inline bool
account_charge(int64_t bytes)
{
    if (bytes > here.line_bytes - here.blocks_bytes && !account_admit(bytes)) {
        return false;
    }
    here.blocks_bytes += bytes;
    return true;
}

/* Takes that back. */
static inline void
account_uncharge(int64_t bytes)
{
    here.blocks_bytes -= bytes;
}

/* A block or an arena is gone: refund its owner. Any thread. */
static inline void
account_release(const Owned *owned)
{
    if (owned->account == here.account && !owned->arena && !here.told) {
        account_uncharge(owned->bytes);
        here.entries--;
    } else {
        account_refund(owned);
    }
}
