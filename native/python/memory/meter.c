/* The memory meter: hooks in CPython's allocators that charge what a task allocates while it runs.
 *
 * obmalloc passes every request of more than 512 bytes to the raw domain. The meter wraps the raw domain, and the owner table
 * (owners.c) keeps the owner of each such block. So any thread can free the block at any time, and its owner is refunded.
 * Smaller requests come from arenas of 1 MiB. The arena hook charges a new arena to the task that runs at that moment.
 * accounts.c decides what happens at the limit.
 *
 * A block that grows counts as a new block: the running task pays for all of it, and the old owner is refunded. A block that
 * shrinks keeps its owner. What the interpreter, the kernel or other threads allocate while no task runs has no owner.
 *
 * Rejected: to count small objects one by one. It would cost a call on every allocation, and neither the size nor the owner
 * of an object is known when it is freed. Rejected: to wrap the other two domains. obmalloc uses the raw domain anyway.
 *
 * METERHOOK-1  A thread charges the account that is entered in it, or none. A release refunds the account in the owner
 *     table.
 * METERHOOK-2  The hooks ignore their context, and `under` does not change while they are installed: another thread may be
 *     inside a hook while it is removed. Allocators belong to the process, so the hooks and `users` are static.
 */

#define PY_SSIZE_T_CLEAN
#include "python/memory/meter.h"
#include "python/memory/accounts.h"
#include "python/memory/owners.h"

#define SMALL_BYTES 512 /* up to here obmalloc serves a request from an arena */

static PyMemAllocatorEx under;
static PyObjectArenaAllocator under_arena;
static int users;
static bool hooked;

/* ---- the raw domain: every block of more than SMALL_BYTES */

/* Enter the block that the running task was charged for in the owner table. If that is not possible, take the charge back. */
static inline void *
keep(void *block, int64_t bytes)
{
    Owned owned = {.block = (uintptr_t)block, .bytes = bytes, .account = running.account};
    if (block != NULL && owners_put(&owned, is_alone())) {
        running.entries++;
    } else {
        account_uncharge(bytes);
    }
    return block;
}

static void *
raw_malloc(void *Py_UNUSED(context), size_t size)
{
    running.probed = true;
    if (size <= SMALL_BYTES || running.account == NULL) {
        return under.malloc(under.ctx, size);
    }
    return account_charge((int64_t)size) ? keep(under.malloc(under.ctx, size), (int64_t)size) : NULL;
}

static void *
raw_calloc(void *Py_UNUSED(context), size_t count, size_t each)
{
    size_t size = each != 0 && count > (size_t)PY_SSIZE_T_MAX / each ? 0 : count * each;
    if (size <= SMALL_BYTES || running.account == NULL) {
        return under.calloc(under.ctx, count, each);
    }
    return account_charge((int64_t)size) ? keep(under.calloc(under.ctx, count, each), (int64_t)size) : NULL;
}

/* Put an entry back into the table. If there is no memory for that, the block has no owner any more. */
static void
put_back(Owned owned)
{
    if (!owners_put(&owned, is_alone())) {
        account_release(&owned);
    }
}

/* The running task makes a block grow. For its own block it pays the difference. A block of another owner becomes its own:
 * it pays for all of it, and the old owner is refunded. `old.account` is NULL for a block without owner. */
static void *
grow(void *block, Owned old, int64_t bytes)
{
    bool mine = old.account == running.account;
    int64_t extra = mine ? bytes - old.bytes : bytes;
    void *grown = NULL;
    if (account_charge(extra)) {
        grown = under.realloc(under.ctx, block, (size_t)bytes);
        if (grown == NULL) {
            account_uncharge(extra);
        }
    }
    if (grown == NULL) {
        if (old.account != NULL) {
            put_back(old);
        }
    } else if (mine) {
        old.block = (uintptr_t)grown;
        old.bytes = bytes;
        put_back(old);
    } else {
        if (old.account != NULL) {
            account_release(&old);
        }
        keep(grown, bytes);
    }
    return grown;
}

/* A block shrinks and keeps its owner, or grows while no task runs and loses its owner. */
static void *
shrink(void *block, Owned old, size_t size)
{
    void *moved = under.realloc(under.ctx, block, size);
    if (moved == NULL) {
        put_back(old);
    } else if ((int64_t)size > old.bytes) {
        account_release(&old);
    } else {
        Owned kept = {.block = (uintptr_t)moved, .bytes = (int64_t)size, .account = old.account};
        account_shrink(old.account, old.bytes - kept.bytes);
        put_back(kept);
    }
    return moved;
}

static void *
raw_realloc(void *context, void *block, size_t size)
{
    if (block == NULL) {
        return raw_malloc(context, size);
    }
    Owned old = {0};
    bool owned = owners_take(block, &old, is_alone());
    if (running.account != NULL && size > SMALL_BYTES && (int64_t)size > old.bytes) {
        return grow(block, old, (int64_t)size);
    }
    return owned ? shrink(block, old, size) : under.realloc(under.ctx, block, size);
}

static void
raw_free(void *Py_UNUSED(context), void *block)
{
    Owned owned;
    if (block != NULL && owners_take(block, &owned, is_alone())) {
        account_release(&owned);
    }
    under.free(under.ctx, block);
}

/* ---- arenas, which hold small objects */

static void *
arena_alloc(void *Py_UNUSED(context), size_t size)
{
    void *arena = under_arena.alloc(under_arena.ctx, size);
    Owned owned = {.block = (uintptr_t)arena, .bytes = (int64_t)size, .account = running.account, .arena = true};
    if (arena != NULL && running.account != NULL && owners_put(&owned, is_alone())) {
        account_charge_arena(owned.bytes);
    }
    return arena;
}

static void
arena_free(void *Py_UNUSED(context), void *arena, size_t size)
{
    Owned owned;
    if (owners_take(arena, &owned, is_alone())) {
        account_release(&owned);
    }
    under_arena.free(under_arena.ctx, arena, size);
}

/* ---- installing and removing the hooks */

/* Whether the allocations of Python's objects call our hooks. -1 with MemoryError set: not known. */
static int
hooks_work(void)
{
    running.probed = false;
    void *block = PyObject_Malloc(2 * SMALL_BYTES);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject_Free(block);
    return running.probed;
}

/* Install the hooks that are not installed. */
static void
hook(void)
{
    PyObjectArenaAllocator top_arena;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &under);
    /* The context stays the same, because another thread may read the old function with the new context (METERHOOK-2). */
    PyMemAllocatorEx ours = {under.ctx, raw_malloc, raw_calloc, raw_realloc, raw_free};
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &ours);
    PyObject_GetArenaAllocator(&top_arena);
    if (top_arena.alloc != arena_alloc) {
        under_arena = top_arena;
        PyObjectArenaAllocator ours_arena = {under_arena.ctx, arena_alloc, arena_free};
        PyObject_SetArenaAllocator(&ours_arena);
    }
    hooked = true;
}

/* Remove the hooks and clear the owner table. If another tool has wrapped the hooks, they stay installed. */
static void
unhook(void)
{
    PyMemAllocatorEx top;
    PyObjectArenaAllocator top_arena;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &top);
    PyObject_GetArenaAllocator(&top_arena);
    if (top.malloc == raw_malloc && top_arena.alloc == arena_alloc) {
        PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &under);
        PyObject_SetArenaAllocator(&under_arena);
        owners_clear(account_release);
        hooked = false;
    }
}

/* Install the hooks, or count one more user. 0, or -1 with an exception set: RuntimeError if the hooks cannot work. */
int
meter_install(void)
{
    static bool survives_fork;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_RuntimeError, "memory is metered only in the main interpreter");
        return -1;
    }
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_RuntimeError,
                    "a free-threaded Python does not allocate through the hooks of the memory meter");
    return -1;
#endif
    if (!survives_fork && !(survives_fork = owners_survive_fork())) {
        PyErr_NoMemory();
        return -1;
    }
    int seen = hooked ? hooks_work() : 0;
    if (seen == 0) {
        if (hooked) { /* another tool was removed, and our hooks with it */
            owners_clear(account_release);
        }
        hook();
        seen = hooks_work();
        if (seen <= 0) {
            unhook();
        }
        if (seen == 0) {
            PyErr_SetString(PyExc_RuntimeError,
                            "Python does not use its own allocator for objects (is PYTHONMALLOC set?)");
        }
    }
    if (seen < 1) {
        return -1;
    }
    users++;
    return 0;
}

/* Count one user less; the last one removes the hooks. */
void
meter_uninstall(void)
{
    if (users > 0 && --users == 0) {
        unhook();
    }
}

/* Whether the hooks are installed. */
bool
meter_installed(void)
{
    return hooked;
}
