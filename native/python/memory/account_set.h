/* Account sets (account_set.c): the records of the memory accounts, how long they live, and which of them have changed.
 *
 * A set has the accounts of one run. An account is freed when nothing holds it any more. When a block is freed while its
 * owner does not run, the account goes onto the set's list of changes, and the kernel refunds the owner's pool later.
 * accounts.c charges the accounts.
 */

#pragma once

#include "python/memory/meter.h"

#include <stdatomic.h>

struct AccountSet {
    MeterMakeError make_error;
    void *context;
    _Atomic(MeterAccount *) changed; /* a stack of the accounts whose blocks were freed while their task did not run */
    _Atomic int64_t holders;         /* the maker of the set, and its accounts */
    atomic_bool closed;
};

struct MeterAccount {
    AccountSet *accounts;
    uint64_t tag;
    _Atomic int64_t holders; /* see ACCOUNTSET-1 */
    _Atomic int64_t blocks_bytes;
    _Atomic int64_t arenas_bytes;
    int64_t paid_bytes;    /* what its pool was charged so far */
    int64_t limit_bytes;   /* paid_bytes and what the pool had left when the account was entered */
    int64_t refused_bytes; /* the last request that was refused; 0: none */
    bool notified;         /* the task is over its limit, and has got MemoryBudgetExceeded for that */
    bool ended;
    atomic_bool interrupting; /* a pending call will raise MemoryBudgetExceeded */
    atomic_bool listed;       /* it is in `changed` */
    atomic_bool closed;       /* its maker has released it */
    MeterAccount *next;       /* in `changed` */
    MeterAccount *outer;      /* the account that was entered in this thread before */
};

/* The accounts of one run, or NULL with MemoryError set. `make_error`: see meter.h. */
AccountSet *account_set_make(MeterMakeError make_error, void *context);
void account_set_end(AccountSet *accounts);  /* from now on, no account is listed, and listed accounts are dropped */
void account_set_free(AccountSet *accounts); /* its maker releases it; it is closed */

/* An account without a charge, or NULL with MemoryError set. `tag` says to the maker whose account it is. */
MeterAccount *meter_account_new(AccountSet *accounts, uint64_t tag);
void meter_account_free(MeterAccount *account); /* its maker releases it, while it is not entered */

void account_hold(MeterAccount *account);                /* once more */
void account_drop(MeterAccount *account, int64_t count); /* release it `count` times; the last release frees it */

void account_list_changed(MeterAccount *account);                 /* put it on the list, once; any thread */
bool meter_changed(AccountSet *accounts, MeterAccount **account); /* take one off the list; false: the list is empty */
bool meter_quiet(const AccountSet *accounts);                     /* whether the list is empty */
