/* The memory meter: hooks in CPython's allocators that charge what a task allocates while it runs.
 *
 * What is seen. obmalloc hands every request of more than 512 bytes on to the raw domain: that is wrapped, and each
 * such block is written down with its owner (owners.c), so that its release, by whoever, whenever, is refunded to the
 * one who allocated it. Smaller requests come out of arenas of 1 MiB, which the arena hook charges whole to whoever
 * ran when they were needed. What becomes of a charge at the limit is decided in accounts.c.
 *
 * A block that is made larger is a new block: whoever runs then pays for it whole, and its old owner is refunded. One
 * that is made smaller stays its owner's. What nobody runs for is nobody's: the interpreter, the kernel, threads.
 *
 * Rejected: counting small objects one by one (a call on every allocation, and neither their size nor their owner is
 * known when they are freed); wrapping the other two domains (obmalloc comes to the raw one anyway).
 *
 * Invariants:
 *   1. A thread charges the account that was entered in it, or nobody. Releases refund the account in the table.
 *   2. A block leaves the table before the allocator under us gets it back.
 *   3. The hooks ignore their context and never change what is under them while they are in place: another thread may
 *      be inside one while it is taken out. The hooks and `users` are the process's own, so there is one of each.
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

/* Writes down the block that the running task was charged for, if it got one; else takes the charge back. */
static inline void *
keep(void *block, int64_t bytes)
{
    Owned owned = {.block = (uintptr_t)block, .bytes = bytes, .account = here.account};
    if (block != NULL && owners_put(&owned, here_alone())) {
        here.entries++;
    } else {
        account_uncharge(bytes);
    }
    return block;
}

static void *
raw_malloc(void *Py_UNUSED(context), size_t size)
{
    here.probed = true;
    if (size <= SMALL_BYTES || here.account == NULL) {
        return under.malloc(under.ctx, size);
    }
    return account_charge((int64_t)size) ? keep(under.malloc(under.ctx, size), (int64_t)size) : NULL;
}

static void *
raw_calloc(void *Py_UNUSED(context), size_t count, size_t each)
{
    size_t size = each != 0 && count > (size_t)PY_SSIZE_T_MAX / each ? 0 : count * each;
    if (size <= SMALL_BYTES || here.account == NULL) {
        return under.calloc(under.ctx, count, each);
    }
    return account_charge((int64_t)size) ? keep(under.calloc(under.ctx, count, each), (int64_t)size) : NULL;
}

/* Puts an entry back that was taken out; if there is no memory for it any more, it becomes nobody's. */
static void
put_back(Owned owned)
{
    if (!owners_put(&owned, here_alone())) {
        account_release(&owned);
    }
}

/* A block of the running task grows, or one of another becomes its own because it makes it grow: then it is a new
 * block that it pays for whole, and the old one is refunded. `old.account` is NULL for a block of nobody. */
static void *
grow(void *block, Owned old, int64_t bytes)
{
    bool mine = old.account == here.account;
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

/* A block becomes smaller, or grows while nobody runs: a smaller one stays its owner's, a grown one is nobody's. */
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
    bool owned = owners_take(block, &old, here_alone());
    if (here.account != NULL && size > SMALL_BYTES && (int64_t)size > old.bytes) {
        return grow(block, old, (int64_t)size);
    }
    return owned ? shrink(block, old, size) : under.realloc(under.ctx, block, size);
}

static void
raw_free(void *Py_UNUSED(context), void *block)
{
    Owned owned;
    if (block != NULL && owners_take(block, &owned, here_alone())) {
        account_release(&owned);
    }
    under.free(under.ctx, block);
}

/* ---- arenas: where small objects live */

static void *
arena_alloc(void *Py_UNUSED(context), size_t size)
{
    void *arena = under_arena.alloc(under_arena.ctx, size);
    Owned owned = {.block = (uintptr_t)arena, .bytes = (int64_t)size, .account = here.account, .arena = true};
    if (arena != NULL && here.account != NULL && owners_put(&owned, here_alone())) {
        account_charge_arena(owned.bytes);
    }
    return arena;
}

static void
arena_free(void *Py_UNUSED(context), void *arena, size_t size)
{
    Owned owned;
    if (owners_take(arena, &owned, here_alone())) {
        account_release(&owned);
    }
    under_arena.free(under_arena.ctx, arena, size);
}

/* ---- putting the hooks in and taking them out */

/* Whether objects that Python makes now pass through our hooks. -1 with MemoryError set: there is no telling. */
static int
reached(void)
{
    here.probed = false;
    void *block = PyObject_Malloc(2 * SMALL_BYTES);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject_Free(block);
    return here.probed;
}

/* Puts in those hooks that are not in place. */
static void
hook(void)
{
    PyObjectArenaAllocator top_arena;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &under);
    /* The context stays the same: another thread may read the old function and the new context (invariant 3). */
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

/* Takes the hooks out and forgets every owner. If another tool was put on top of them they stay, and cost a look. */
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

/* Puts the hooks in place, or counts one more user. 0; -1 with an exception set: RuntimeError where they cannot see
 * anything. */
int
meter_install(void)
{
    static bool survives_fork;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_RuntimeError, "memory is metered in the main interpreter only");
        return -1;
    }
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_RuntimeError, "a free-threaded Python takes its memory past the hooks of the meter");
    return -1;
#endif
    if (!survives_fork && !(survives_fork = owners_survive_fork())) {
        PyErr_NoMemory();
        return -1;
    }
    int seen = hooked ? reached() : 0;
    if (seen == 0) {
        if (hooked) { /* a tool that was there before us was taken out, and we with it */
            owners_clear(account_release);
        }
        hook();
        seen = reached();
        if (seen <= 0) {
            unhook();
        }
        if (seen == 0) {
            PyErr_SetString(PyExc_RuntimeError,
                            "Python's objects do not come from its own allocator (is PYTHONMALLOC set?)");
        }
    }
    if (seen < 1) {
        return -1;
    }
    users++;
    return 0;
}

/* One user less; the last one takes the hooks out. */
void
meter_uninstall(void)
{
    if (users > 0 && --users == 0) {
        unhook();
    }
}

/* Whether the hooks are in place. */
bool
meter_installed(void)
{
    return hooked;
}
