/* Account sets: how long memory accounts live, and the list of accounts that have changed. See account_set.h.
 *
 * ACCOUNTSET-1  An account lives while something holds it: its maker, entries of the owner table, a pending call, the list
 *     of changes. The maker counts as MAKER holders and releases the account only while it is not entered. So the account
 *     also lives while `running` (accounts.h) has entries that are not added to `holders` yet; other threads may release
 *     some of them.
 * ACCOUNTSET-2  Only the thread of the kernel takes accounts off the list of changes; every thread may put accounts on it.
 */

#define PY_SSIZE_T_CLEAN
#include "python/memory/account_set.h"

#include <stdlib.h>

#define MAKER (INT64_C(1) << 40) /* more than there can be blocks in memory */

/* ---- holders */

/* Release a set once; the last release frees it. */
static void
drop_set(AccountSet *accounts)
{
    if (atomic_fetch_sub(&accounts->holders, 1) == 1) {
        free(accounts);
    }
}

void
account_hold(MeterAccount *account)
{
    atomic_fetch_add(&account->holders, 1);
}

void
account_drop(MeterAccount *account, int64_t count)
{
    if (atomic_fetch_sub(&account->holders, count) == count) {
        drop_set(account->accounts);
        free(account);
    }
}

AccountSet *
account_set_make(MeterMakeError make_error, void *context)
{
    AccountSet *accounts = calloc(1, sizeof *accounts);
    if (accounts == NULL) {
        return (AccountSet *)PyErr_NoMemory();
    }
    accounts->make_error = make_error;
    accounts->context = context;
    atomic_store(&accounts->holders, 1);
    return accounts;
}

void
account_set_end(AccountSet *accounts)
{
    MeterAccount *account;
    atomic_store(&accounts->closed, true);
    while (meter_changed(accounts, &account)) {
    }
}

void
account_set_free(AccountSet *accounts)
{
    drop_set(accounts);
}

MeterAccount *
meter_account_new(AccountSet *accounts, uint64_t tag)
{
    MeterAccount *account = calloc(1, sizeof *account);
    if (account == NULL) {
        return (MeterAccount *)PyErr_NoMemory();
    }
    account->accounts = accounts;
    account->tag = tag;
    atomic_store(&account->holders, MAKER);
    atomic_fetch_add(&accounts->holders, 1);
    return account;
}

void
meter_account_free(MeterAccount *account)
{
    atomic_store(&account->closed, true);
    account_drop(account, MAKER);
}

/* ---- the list of changes */

void
account_list_changed(MeterAccount *account)
{
    AccountSet *accounts = account->accounts;
    if (atomic_load(&accounts->closed) || atomic_exchange(&account->listed, true)) {
        return;
    }
    account_hold(account);
    account->next = atomic_load(&accounts->changed);
    while (!atomic_compare_exchange_weak(&accounts->changed, &account->next, account)) {
    }
}

bool
meter_changed(AccountSet *accounts, MeterAccount **account)
{
    for (;;) {
        MeterAccount *first = atomic_load(&accounts->changed);
        if (first == NULL) {
            return false;
        }
        /* Invariant 2: no other thread takes `first` off the list, so `first->next` does not change. */
        while (!atomic_compare_exchange_weak(&accounts->changed, &first, first->next)) {
        }
        atomic_store(&first->listed, false);
        bool closed = atomic_load(&first->closed);
        account_drop(first, 1); /* its maker still holds it, unless it is closed */
        if (!closed) {
            *account = first;
            return true;
        }
    }
}

bool
meter_quiet(const AccountSet *accounts)
{
    return atomic_load_explicit(&accounts->changed, memory_order_relaxed) == NULL;
}
