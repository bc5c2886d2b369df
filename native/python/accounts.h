/* Accounts, as the hooks of meter.c see them: the running task's account, and the fast way to charge it. */

#ifndef BURSAR_ACCOUNTS_H
#define BURSAR_ACCOUNTS_H

#include "meter.h"
#include "owners.h"

/* The account that this thread charges, and what it has charged since it was loaded. */
typedef struct {
    MeterAccount *account;
    int64_t room_bytes; /* to the next line that must be looked at */
    int64_t blocks_bytes;
    int64_t arenas_bytes;
    int64_t entries; /* of the owner table */
    bool probed;     /* a hook was called: see `reached` in meter.c */
} Here;

/* Reached by one offset from the thread pointer: what is loaded late has no faster way to a variable of a thread. */
extern _Thread_local __attribute__((tls_model("initial-exec"), visibility("hidden"))) Here here;

bool account_admit(int64_t bytes);
void account_charge_arena(int64_t bytes);
void account_shrink(MeterAccount *account, int64_t bytes);
void account_release(const Owned *owned);

/* Charges the running task. False if it is refused; then nothing was charged. */
static inline bool
account_charge(int64_t bytes)
{
    if (bytes > here.room_bytes && !account_admit(bytes)) {
        return false;
    }
    here.room_bytes -= bytes;
    here.blocks_bytes += bytes;
    return true;
}

/* Takes that back. */
static inline void
account_uncharge(int64_t bytes)
{
    here.room_bytes += bytes;
    here.blocks_bytes -= bytes;
}

#endif
