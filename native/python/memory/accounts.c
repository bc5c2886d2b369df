/* The accounts of the memory meter: what each task holds, and what happens when it would hold too much.
 *
 * At the limit. An allocator can only say no, and CPython then raises a plain MemoryError; it cannot raise
 * MemoryBudgetExceeded. So there are two lines. A request that would go more than METER_OVERDRAFT_BYTES over the limit
 * is refused on the spot, and the kernel translates the MemoryError if it leaves the task. One that stays within the
 * overdraft is granted, once, and the task is *struck*: a pending call raises the right type at the next bytecode.
 * Where that cannot be (another thread than the main one, a frame of Bursar's own), it is told at its next await. Who
 * was told has the overdraft to tidy up with, and is told again when it has been below its limit in between.
 *
 * Small objects are never refused: refusing an arena only sends obmalloc to malloc, and a MemoryError for 32 bytes
 * strikes in places that nobody ever tested. Each arena beyond the limit strikes again. An arena holds objects of many
 * tasks, so the first one of a living task is not held against it; when it ends, it is.
 *
 * Rejected: only refusing (the wrong type inside the task, always); PyThreadState_SetAsyncExc (takes a lock that the
 * interpreter may hold while it allocates, and makes its own exception, without a message).
 *
 * Invariants:
 *   1. Charges of the running task are counted in the thread (`here`) and added to the account when it turns to another;
 *      only releases by others touch the account's atomics meanwhile. That is what makes a charge cheap.
 *   2. An account lives while anything holds it: its maker, entries of the table, a pending strike, the list of
 *      changes. Its maker holds it MAKER times, and lets go only while it is not entered: so it also lives while
 *      entries of the table are counted in `here` only, of which others may release some meanwhile.
 *   3. A strike that comes after the poll it was meant for does nothing: it asks who is entered.
 *   4. Nothing here allocates through Python but `deliver`, which runs between two bytecodes.
 */

#define PY_SSIZE_T_CLEAN
#include "python/memory/accounts.h"
#include "python/memory/meter.h"
#include "python/memory/owners.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_FREE_BYTES METER_OVERDRAFT_BYTES /* of arenas, not held against a living task */
#define MAKER (INT64_C(1) << 40)               /* holds it so often: more than there can be blocks in memory */

struct AccountSet {
    MeterTell tell;
    void *context;
    _Atomic(MeterAccount *) changed; /* a stack of accounts of which others freed something */
    _Atomic int64_t holders;
    atomic_bool closed;
};

struct MeterAccount {
    AccountSet *accounts;
    uint64_t tag;
    _Atomic int64_t holders;
    _Atomic int64_t blocks_bytes;
    _Atomic int64_t arenas_bytes;
    int64_t paid_bytes;    /* what its pool was charged for so far */
    int64_t limit_bytes;   /* paid, and what the pool had left when it was entered */
    int64_t refused_bytes; /* the last request that was refused; 0: none ever was */
    bool told;             /* it is over its limit and knows */
    bool ended;
    atomic_bool interrupting; /* a pending call is on its way */
    atomic_bool listed;       /* it stands in `changed` */
    atomic_bool closed;       /* its maker has let go */
    MeterAccount *next;       /* in `changed` */
    MeterAccount *outer;      /* who was entered in this thread before */
};

_Thread_local Here here;

/* ---- holding */

/* Lets go of a book once; the last one frees it. */
static void
drop_account_set(AccountSet *accounts)
{
    if (atomic_fetch_sub(&accounts->holders, 1) == 1) {
        free(accounts);
    }
}

/* Lets go of an account `count` times. */
static void
drop(MeterAccount *account, int64_t count)
{
    if (atomic_fetch_sub(&account->holders, count) == count) {
        drop_account_set(account->accounts);
        free(account);
    }
}

/* Puts an account on its book's list of changes, once. Any thread. */
static void
list_changed(MeterAccount *account)
{
    AccountSet *accounts = account->accounts;
    if (atomic_load(&accounts->closed) || atomic_exchange(&account->listed, true)) {
        return;
    }
    atomic_fetch_add(&account->holders, 1);
    account->next = atomic_load(&accounts->changed);
    while (!atomic_compare_exchange_weak(&accounts->changed, &account->next, account)) {
    }
}

/* ---- counting */

/* What is held against an account now. Exact in the thread that has it entered, and where it is not entered. */
static int64_t
counted(const MeterAccount *account)
{
    bool mine = here.account == account;
    int64_t blocks = atomic_load(&account->blocks_bytes) + (mine ? here.blocks_bytes : 0);
    int64_t arenas = atomic_load(&account->arenas_bytes) + (mine ? here.arenas_bytes : 0);
    if (!account->ended) {
        arenas = arenas > ARENA_FREE_BYTES ? arenas - ARENA_FREE_BYTES : 0;
    }
    return blocks + arenas;
}

/* How far an account is over its limit; less than 0: below it. */
static int64_t
excess(const MeterAccount *account)
{
    return counted(account) - account->limit_bytes;
}

/* How much may be charged before somebody must look, to one who is so far over its limit: as much as it is below, or,
 * for one who was told, to the overdraft's end. */
static int64_t
room(const MeterAccount *account, int64_t over)
{
    if (account->limit_bytes == METER_OPEN) {
        return METER_OPEN / 2;
    }
    return (account->told ? METER_OVERDRAFT_BYTES : 0) - over;
}

/* So much may be charged from here on before somebody must look. */
static void
set_room(int64_t bytes)
{
    here.line_bytes = here.blocks_bytes + bytes;
}

/* Writes down whether it knows that it is over its limit. */
static void
set_told(MeterAccount *account, bool told)
{
    account->told = told;
    if (here.account == account) {
        here.told = told;
    }
}

/* The running task: if it has come below its limit again, it will be told again. */
static void
look_again(MeterAccount *account)
{
    int64_t over = excess(account);
    here.told = account->told = account->told && over > 0;
    set_room(room(account, over));
}

/* From here on this thread charges `account`; NULL: nobody. */
static void
load(MeterAccount *account)
{
    here.account = account;
    here.blocks_bytes = here.arenas_bytes = here.entries = 0;
    if (account == NULL) {
        here.thread = NULL;
        return;
    }
    here.thread = PyThreadState_Get();
    look_again(account);
}

/* Adds to a count that others may be adding to; nothing costs nothing, and most stretches have nothing to add. */
static void
add(_Atomic int64_t *count, int64_t amount)
{
    if (amount != 0) {
        atomic_fetch_add(count, amount);
    }
}

/* Adds what this thread has counted to the account that it charges, if any, and charges another from here on. */
static void
turn_to(MeterAccount *next)
{
    MeterAccount *account = here.account;
    if (account != NULL) {
        add(&account->blocks_bytes, here.blocks_bytes);
        add(&account->arenas_bytes, here.arenas_bytes);
        add(&account->holders, here.entries);
    }
    load(next);
}

/* What `account_release` cannot do in passing: for an owner that does not run here, that was told, or of an arena. */
void
account_refund(const Owned *owned)
{
    MeterAccount *account = owned->account;
    if (account == here.account) {
        *(owned->arena ? &here.arenas_bytes : &here.blocks_bytes) -= owned->bytes;
        here.entries--;
        look_again(account);
        return;
    }
    atomic_fetch_sub(owned->arena ? &account->arenas_bytes : &account->blocks_bytes, owned->bytes);
    list_changed(account);
    drop(account, 1);
}

/* A block became smaller by `bytes`, and stays its owner's. Any thread. */
void
account_shrink(MeterAccount *account, int64_t bytes)
{
    if (account == here.account) {
        account_uncharge(bytes);
        return;
    }
    atomic_fetch_sub(&account->blocks_bytes, bytes);
    list_changed(account);
}

/* ---- at the limit */

/* The pending call: in the main thread, between two bytecodes. -1 with the exception set if it strikes. */
static int
deliver(void *argument)
{
    MeterAccount *account = argument;
    int raised_here = 0;
    atomic_store(&account->interrupting, false);
    if (here.account == account && excess(account) > 0) {
        MeterAccount *paused = meter_pause();
        PyObject *error = account->accounts->tell(account->accounts->context, account->tag);
        if (error != Py_None) {
            set_told(account, true);
            raised_here = -1;
            if (error != NULL) {
                PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            }
        }
        Py_XDECREF(error);
        meter_resume(paused);
    }
    drop(account, 1);
    return raised_here;
}

/* Sees to it that the running task is told, as soon as that can be. Needs no lock that an allocator could be under. */
static void
interrupt_task(MeterAccount *account)
{
    if (atomic_exchange(&account->interrupting, true)) {
        return;
    }
    atomic_fetch_add(&account->holders, 1);
    if (Py_AddPendingCall(deliver, account) != 0) { /* too many: it will be told at its await */
        atomic_store(&account->interrupting, false);
        drop(account, 1);
    }
}

/* The key that modules are named by; made once, because it is looked up where nothing may be made. */
static PyObject *name_key;

/* Whether Bursar's own code runs: its books are never refused memory half way through. */
static bool
in_own_code(void)
{
    PyObject *globals = PyGILState_Check() ? PyEval_GetGlobals() : NULL;
    PyObject *name = globals == NULL ? NULL : PyDict_GetItemWithError(globals, name_key);
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text != NULL && strncmp(text, "bursar", 6) == 0 && (text[6] == '.' || text[6] == '\0');
}

/* A request of the running task does not fit in its room: look closer. False if it is refused. */
bool
account_admit(int64_t bytes)
{
    MeterAccount *account = here.account;
    int64_t over = excess(account) + bytes;
    if (over <= 0) { /* others have freed something of its own */
        set_told(account, false);
        set_room(bytes - over);
        return true;
    }
    if (over > METER_OVERDRAFT_BYTES && !in_own_code()) {
        account->refused_bytes = bytes;
        return false;
    }
    if (!account->told) {
        interrupt_task(account);
    }
    int64_t rest = METER_OVERDRAFT_BYTES - over;
    set_room(bytes + (rest > 0 ? rest : 0));
    return true;
}

/* The running task needed an arena, and has it. */
void
account_charge_arena(int64_t bytes)
{
    MeterAccount *account = here.account;
    here.arenas_bytes += bytes;
    here.entries++;
    int64_t over = excess(account);
    set_room(room(account, over));
    if (over > 0) {
        interrupt_task(account);
    }
}

/* ---- what a kernel calls, with the GIL held */

/* The books of one runtime, or NULL with MemoryError set. `tell` makes the exception that strikes. */
AccountSet *
account_set_make(MeterTell tell, void *context)
{
    if (name_key == NULL && (name_key = PyUnicode_InternFromString("__name__")) == NULL) {
        return NULL;
    }
    AccountSet *accounts = calloc(1, sizeof *accounts);
    if (accounts == NULL) {
        return (AccountSet *)PyErr_NoMemory();
    }
    accounts->tell = tell;
    accounts->context = context;
    atomic_store(&accounts->holders, 1);
    return accounts;
}

/* The runtime is over: its tasks run no more in this thread, and from here on releases are refunded to nobody. */
void
account_set_close_all(AccountSet *accounts)
{
    MeterAccount *account;
    while (here.account != NULL && here.account->accounts == accounts) { /* an interrupt kept somebody from leaving */
        meter_leave(here.account);
    }
    atomic_store(&accounts->closed, true);
    while (meter_changed(accounts, &account)) {
    }
}

/* Its maker lets go of it. It is closed. */
void
account_set_free(AccountSet *accounts)
{
    drop_account_set(accounts);
}

/* An account without a charge, or NULL with MemoryError set. `tag` is whatever tells its maker whose it is. */
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

/* Its maker lets go of it, and it is not entered. Blocks that it still owns are nobody's concern any more. */
void
meter_account_free(MeterAccount *account)
{
    atomic_store(&account->closed, true);
    drop(account, MAKER);
}

/* Takes the next account of which others have freed something off the list. False if there is none. */
bool
meter_changed(AccountSet *accounts, MeterAccount **account)
{
    for (;;) {
        MeterAccount *first = atomic_load(&accounts->changed);
        if (first == NULL) {
            return false;
        }
        /* Only this thread takes off, so the first one's successor cannot change under us. */
        while (!atomic_compare_exchange_weak(&accounts->changed, &first, first->next)) {
        }
        atomic_store(&first->listed, false);
        bool closed = atomic_load(&first->closed);
        drop(first, 1); /* its maker holds it, unless it is closed */
        if (!closed) {
            *account = first;
            return true;
        }
    }
}

/* Whether that list is empty. */
bool
meter_quiet(const AccountSet *accounts)
{
    return atomic_load_explicit(&accounts->changed, memory_order_relaxed) == NULL;
}

/* The task runs in this thread: charge its account until `meter_leave`, up to what its pool has left. */
void
meter_enter(MeterAccount *account, int64_t left_bytes)
{
    account->outer = here.account;
    account->limit_bytes = left_bytes == METER_OPEN ? METER_OPEN : account->paid_bytes + left_bytes;
    turn_to(account);
}

/* The task does not run any more; whoever was entered before it is entered again. */
void
meter_leave(MeterAccount *account)
{
    MeterAccount *outer = account->outer;
    account->outer = NULL;
    turn_to(outer);
}

/* Whether this thread charges it. */
bool
meter_entered(const MeterAccount *account)
{
    return here.account == account;
}

/* Charges nobody until `meter_resume`; returns who is to be resumed. */
MeterAccount *
meter_pause(void)
{
    MeterAccount *account = here.account;
    turn_to(NULL);
    return account;
}

void
meter_resume(MeterAccount *account)
{
    load(account);
}

uint64_t
meter_tag(const MeterAccount *account)
{
    return account->tag;
}

/* The bytes that it holds, whoever they are held against. */
int64_t
meter_held_bytes(const MeterAccount *account)
{
    int64_t held = atomic_load(&account->blocks_bytes) + atomic_load(&account->arenas_bytes);
    return here.account == account ? held + here.blocks_bytes + here.arenas_bytes : held;
}

/* What its pool is to be charged for (more than 0) or refunded (less). */
int64_t
meter_due_bytes(const MeterAccount *account)
{
    return counted(account) - account->paid_bytes;
}

/* The last request that was refused; 0 if none ever was. */
int64_t
meter_refused_bytes(const MeterAccount *account)
{
    return account->refused_bytes;
}

/* Its pool was charged for `bytes`, or refunded if they are negative. */
void
meter_paid(MeterAccount *account, int64_t bytes)
{
    account->paid_bytes += bytes;
}

/* The task is over: from now on its first arena counts like any other. */
void
meter_end(MeterAccount *account)
{
    account->ended = true;
}

/* Whether it is over its limit and does not know: true once, then its kernel tells it. */
bool
meter_untold(MeterAccount *account)
{
    if (account->told || excess(account) <= 0) {
        return false;
    }
    set_told(account, true);
    return true;
}
