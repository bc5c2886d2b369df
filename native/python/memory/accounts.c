/* The accounts of the memory meter: what each task holds, and what happens when a task reaches its limit.
 *
 * An allocator can only return NULL, and CPython then raises a plain MemoryError, not MemoryBudgetExceeded. So there are two
 * limits. A request that would go more than METER_OVERDRAFT_BYTES over the task's limit is refused, and if the MemoryError
 * leaves the task, the kernel makes MemoryBudgetExceeded of it. A request within the overdraft is granted, and the task is
 * *notified*: a pending call raises MemoryBudgetExceeded at the next bytecode. If that is not possible (in another thread
 * than the main one, or in a frame of Bursar), the error is raised at the task's next await. A task that was notified may
 * use the overdraft for its cleanup. It is notified again only after it was below its limit.
 *
 * Small objects are never refused. If an arena is refused, obmalloc takes the memory from malloc, and a MemoryError for 32
 * bytes would appear in code that was never tested for it. Each arena over the limit notifies again. An arena holds objects
 * of many tasks, so the first arena of a live task does not count against its limit. After its end, it does.
 *
 * Rejected: only refusing (always the wrong exception inside the task). PyThreadState_SetAsyncExc (it takes a lock that the
 * interpreter may hold while it allocates, and makes an exception without a message).
 *
 * MEMORYLIMIT-1  Charges of the running task are counted in the thread (`running`), and added to the account when another
 *     account is entered. Meanwhile only releases by other tasks and threads change the account's atomics. So a charge is
 *     cheap.
 * MEMORYLIMIT-2  A pending call that comes after its poll does nothing: it checks which account is entered.
 * MEMORYLIMIT-3  Only `deliver` allocates through Python. It runs between two bytecodes.
 */

#define PY_SSIZE_T_CLEAN
#include "python/memory/accounts.h"

#include <string.h>

#define ARENA_FREE_BYTES METER_OVERDRAFT_BYTES /* of arenas, do not count against the limit of a live task */

_Thread_local Running running;

/* ---- counting */

/* The bytes that count against the limit. Exact in the thread that has entered the account, or if no thread has. */
static int64_t
counted(const MeterAccount *account)
{
    bool mine = running.account == account;
    int64_t blocks = atomic_load(&account->blocks_bytes) + (mine ? running.blocks_bytes : 0);
    int64_t arenas = atomic_load(&account->arenas_bytes) + (mine ? running.arenas_bytes : 0);
    if (!account->ended) {
        arenas = arenas > ARENA_FREE_BYTES ? arenas - ARENA_FREE_BYTES : 0;
    }
    return blocks + arenas;
}

/* How far an account is over its limit; negative: below it. */
static int64_t
excess(const MeterAccount *account)
{
    return counted(account) - account->limit_bytes;
}

/* How many bytes may be charged before the next call of `account_admit`: up to the limit, or, after the task was notified,
 * up to the end of the overdraft. `over`: how far the account is over its limit. */
static int64_t
room(const MeterAccount *account, int64_t over)
{
    if (account->limit_bytes == METER_OPEN) {
        return METER_OPEN / 2;
    }
    return (account->notified ? METER_OVERDRAFT_BYTES : 0) - over;
}

/* Set the line so that `bytes` more may be charged without a call of `account_admit`. */
static void
set_room(int64_t bytes)
{
    running.line_bytes = running.blocks_bytes + bytes;
}

/* Set whether the task was notified that it is over its limit. */
static void
set_notified(MeterAccount *account, bool notified)
{
    account->notified = notified;
    if (running.account == account) {
        running.notified = notified;
    }
}

/* Compute the room of the running task again. A task that is below its limit again will be notified again. */
static void
update_room(MeterAccount *account)
{
    int64_t over = excess(account);
    running.notified = account->notified = account->notified && over > 0;
    set_room(room(account, over));
}

/* From now on this thread charges `account`; NULL: no account. */
static void
load(MeterAccount *account)
{
    running.account = account;
    running.blocks_bytes = running.arenas_bytes = running.entries = 0;
    if (account == NULL) {
        running.thread = NULL;
        return;
    }
    running.thread = PyThreadState_Get();
    update_room(account);
}

/* Add to a count that other threads change too. Most amounts are 0, and an atomic operation is expensive. */
static void
add(_Atomic int64_t *count, int64_t amount)
{
    if (amount != 0) {
        atomic_fetch_add(count, amount);
    }
}

/* Add what this thread has counted to the entered account, if any, and charge `next` from now on. */
static void
switch_to(MeterAccount *next)
{
    MeterAccount *account = running.account;
    if (account != NULL) {
        add(&account->blocks_bytes, running.blocks_bytes);
        add(&account->arenas_bytes, running.arenas_bytes);
        add(&account->holders, running.entries);
    }
    load(next);
}

void
account_refund(const Owned *owned)
{
    MeterAccount *account = owned->account;
    if (account == running.account) {
        *(owned->arena ? &running.arenas_bytes : &running.blocks_bytes) -= owned->bytes;
        running.entries--;
        update_room(account);
        return;
    }
    atomic_fetch_sub(owned->arena ? &account->arenas_bytes : &account->blocks_bytes, owned->bytes);
    account_list_changed(account);
    account_drop(account, 1);
}

void
account_shrink(MeterAccount *account, int64_t bytes)
{
    if (account == running.account) {
        account_uncharge(bytes);
        return;
    }
    atomic_fetch_sub(&account->blocks_bytes, bytes);
    account_list_changed(account);
}

/* ---- at the limit */

/* The pending call, which runs in the main thread between two bytecodes. -1 with an exception set: it interrupts the task. */
static int
deliver(void *argument)
{
    MeterAccount *account = argument;
    int raised_here = 0;
    atomic_store(&account->interrupting, false);
    if (running.account == account && excess(account) > 0) {
        MeterAccount *paused = meter_pause();
        PyObject *error = account->accounts->make_error(account->accounts->context, account->tag);
        if (error != Py_None) {
            set_notified(account, true);
            raised_here = -1;
            if (error != NULL) {
                PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            }
        }
        Py_XDECREF(error);
        meter_resume(paused);
    }
    account_drop(account, 1);
    return raised_here;
}

/* Ask for a pending call that interrupts the running task. Takes no lock that may be held during an allocation. */
static void
interrupt_task(MeterAccount *account)
{
    if (atomic_exchange(&account->interrupting, true)) {
        return;
    }
    account_hold(account);
    if (Py_AddPendingCall(deliver, account) != 0) { /* too many: the task is notified at its next await */
        atomic_store(&account->interrupting, false);
        account_drop(account, 1);
    }
}

/* The string "__name__", made once: it is used inside allocators, where no object can be made. */
static PyObject *name_key;

/* Whether Bursar's own code runs. It is never refused memory: its records must not be left half changed. */
static bool
in_own_code(void)
{
    PyObject *globals = PyGILState_Check() ? PyEval_GetGlobals() : NULL;
    PyObject *name = globals == NULL ? NULL : PyDict_GetItemWithError(globals, name_key);
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text != NULL && strncmp(text, "bursar", 6) == 0 && (text[6] == '.' || text[6] == '\0');
}

bool
account_admit(int64_t bytes)
{
    MeterAccount *account = running.account;
    int64_t over = excess(account) + bytes;
    if (over <= 0) { /* others have freed blocks of this account */
        set_notified(account, false);
        set_room(bytes - over);
        return true;
    }
    if (over > METER_OVERDRAFT_BYTES && !in_own_code()) {
        account->refused_bytes = bytes;
        return false;
    }
    if (!account->notified) {
        interrupt_task(account);
    }
    int64_t rest = METER_OVERDRAFT_BYTES - over;
    set_room(bytes + (rest > 0 ? rest : 0));
    return true;
}

void
account_charge_arena(int64_t bytes)
{
    MeterAccount *account = running.account;
    running.arenas_bytes += bytes;
    running.entries++;
    int64_t over = excess(account);
    set_room(room(account, over));
    if (over > 0) {
        interrupt_task(account);
    }
}

/* ---- what a kernel calls, with the GIL held */

int
accounts_prepare(void)
{
    if (name_key == NULL) {
        name_key = PyUnicode_InternFromString("__name__");
    }
    return name_key == NULL ? -1 : 0;
}

void
accounts_leave_all(AccountSet *accounts)
{
    while (running.account != NULL && running.account->accounts == accounts) { /* an interrupt prevented the leave */
        meter_leave(running.account);
    }
    account_set_end(accounts);
}

void
meter_enter(MeterAccount *account, int64_t left_bytes)
{
    account->outer = running.account;
    account->limit_bytes = left_bytes == METER_OPEN ? METER_OPEN : account->paid_bytes + left_bytes;
    switch_to(account);
}

void
meter_leave(MeterAccount *account)
{
    MeterAccount *outer = account->outer;
    account->outer = NULL;
    switch_to(outer);
}

bool
meter_entered(const MeterAccount *account)
{
    return running.account == account;
}

MeterAccount *
meter_pause(void)
{
    MeterAccount *account = running.account;
    switch_to(NULL);
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

int64_t
meter_held_bytes(const MeterAccount *account)
{
    int64_t held = atomic_load(&account->blocks_bytes) + atomic_load(&account->arenas_bytes);
    return running.account == account ? held + running.blocks_bytes + running.arenas_bytes : held;
}

int64_t
meter_due_bytes(const MeterAccount *account)
{
    return counted(account) - account->paid_bytes;
}

int64_t
meter_refused_bytes(const MeterAccount *account)
{
    return account->refused_bytes;
}

void
meter_paid(MeterAccount *account, int64_t bytes)
{
    account->paid_bytes += bytes;
}

void
meter_end(MeterAccount *account)
{
    account->ended = true;
}

bool
meter_notify_once(MeterAccount *account)
{
    if (account->notified || excess(account) <= 0) {
        return false;
    }
    set_notified(account, true);
    return true;
}
