/* Pools: accounts of one component each. After src/bursar/law/pool.py.
 *
 * native/law/pool.h has the arithmetic. This file has the Python type, on which the functions of pool.py (`affordable`,
 * `left`, `top_up`) work, and the ownership of parents. Methods check before they act: a broken rule raises
 * AssertionError with the text of pool.py, because LAW_RULE would end the process.
 *
 * A pool is never its own parent, but Python can write `parent`, so the collector tracks pools. A chain of parents is
 * as long as the nurseries are deep, so a loop frees it, not a recursion.
 *
 * ACCOUNT-1  account.parent is the account of `parent`, or both are NULL
 *
 * Rejected: amounts as Python ints. An amount that does not fit 64 bits raises OverflowError; no budget is so large.
 */

#include "python/law/pool.h"
#include "python/law/observer.h"
#include "python/module/seam.h"

/* ---- making and freeing */

/* An empty pool without a parent. NULL with MemoryError set. */
static Pool *
pool_alloc(PyTypeObject *type)
{
    Pool *pool = (Pool *)type->tp_alloc(type, 0);
    if (pool != NULL) {
        law_pool_init(&pool->account, 0);
    }
    return pool;
}

/* Set the parent of a pool, which may be NULL (ACCOUNT-1). */
static void
pool_set_parent(Pool *pool, Pool *parent)
{
    pool->account.parent = parent == NULL ? NULL : &parent->account;
    Py_XINCREF(parent);
    Py_XSETREF(pool->parent, parent);
}

static int
pool_traverse(Pool *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->parent);
    return 0;
}

static int
pool_clear(Pool *self)
{
    self->account.parent = NULL;
    Py_CLEAR(self->parent);
    return 0;
}

/* Frees the parents that have no other reference in a loop: recursion would overflow the stack for a long chain. */
static void
pool_dealloc(Pool *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Pool *parent = self->parent;
    self->parent = NULL;
    while (parent != NULL && Py_REFCNT(parent) == 1) {
        Pool *above = parent->parent;
        parent->parent = NULL;
        parent->account.parent = NULL;
        Py_DECREF(parent);
        parent = above;
    }
    Py_XDECREF(parent);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- numbers in and out */

/* What is left, from a Python int or None (no limit). False with an exception set. */
static bool
left_from(PyObject *value, int64_t *left)
{
    if (value == Py_None) {
        *left = LAW_OPEN;
        return true;
    }
    *left = PyLong_AsLongLong(value);
    if (*left == -1 && PyErr_Occurred()) {
        return false;
    }
    if (*left < 0) {
        PyErr_Format(PyExc_ValueError, "left=%R: a pool cannot hold less than 0 (BUDGET-3); None means no limit",
                     value);
        return false;
    }
    return true;
}

/* An amount to move, from a Python int. False with an exception set. */
static bool
amount_from(PyObject *value, int64_t *amount)
{
    *amount = PyLong_AsLongLong(value);
    return *amount != -1 || !PyErr_Occurred();
}

/* Raise AssertionError with `text` unless `holds`, as the `assert` of pool.py does. */
static bool
rule_holds(bool holds, const char *text)
{
    if (!holds) {
        PyErr_SetString(PyExc_AssertionError, text);
    }
    return holds;
}

/* Whether a pool can hold `amount` more. False with OverflowError set: the sum does not fit 64 bits. */
static bool
has_room(const Pool *pool, int64_t amount)
{
    int64_t held = pool->account.left == LAW_OPEN ? 0 : pool->account.left;
    if (amount > INT64_MAX - held) {
        PyErr_Format(PyExc_OverflowError, "a pool with %lld units has no room for %lld more", (long long)held,
                     (long long)amount);
        return false;
    }
    return true;
}

/* ---- the Python type */

PyDoc_STRVAR(pool_doc, "Pool(left, parent=None)\n--\n\n"
                       "One account for one component. `left` is None in an open pool, which has no limit.");

static PyObject *
pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"left", "parent", NULL};
    PyObject *left_given, *parent = Py_None;
    int64_t left;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Pool", names, &left_given, &parent) ||
        !left_from(left_given, &left)) {
        return NULL;
    }
    if (parent != Py_None && Py_TYPE(parent) != type) {
        PyErr_Format(PyExc_TypeError, "Pool(parent=%R): the parent of a pool is a Pool or None", parent);
        return NULL;
    }
    Pool *pool = pool_alloc(type);
    if (pool == NULL) {
        return NULL;
    }
    law_pool_init(&pool->account, left);
    pool_set_parent(pool, parent == Py_None ? NULL : (Pool *)parent);
    return (PyObject *)pool;
}

/* Move `amount` down into a sub-pool. False with an exception set: nothing was moved. */
static bool
fill(Pool *from, Pool *pool, int64_t amount)
{
    if (!rule_holds(pool->parent == from, "BUDGET-2") ||
        !rule_holds(amount >= 0 && law_can_pay(from->account.left, amount), "BUDGET-3") || !has_room(pool, amount)) {
        return false;
    }
    law_pool_fill(&from->account, &pool->account, amount);
    return true;
}

/* lend(amount): make a sub-pool with `amount` in it. This pool must have that amount. */
static PyObject *
pool_lend(Pool *self, PyObject *amount_given)
{
    int64_t amount;
    if (!amount_from(amount_given, &amount)) {
        return NULL;
    }
    Pool *pool = pool_alloc(Py_TYPE(self));
    if (pool == NULL) {
        return NULL;
    }
    pool_set_parent(pool, self);
    if (!fill(self, pool, amount)) {
        Py_DECREF(pool);
        return NULL;
    }
    return (PyObject *)pool;
}

/* fill(pool, amount): move `amount` down into a sub-pool. */
static PyObject *
pool_fill(Pool *self, PyObject *args)
{
    PyObject *pool, *amount_given;
    int64_t amount;
    if (!PyArg_ParseTuple(args, "O!O:fill", Py_TYPE(self), &pool, &amount_given) ||
        !amount_from(amount_given, &amount) || !fill(self, (Pool *)pool, amount)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* mint(amount): add an amount that comes from no parent. */
static PyObject *
pool_mint(Pool *self, PyObject *amount_given)
{
    int64_t amount;
    if (!amount_from(amount_given, &amount)) {
        return NULL;
    }
    if (self->account.left != LAW_OPEN && (!rule_holds(amount >= 0, "BUDGET-3") || !has_room(self, amount))) {
        return NULL;
    }
    law_pool_mint(&self->account, amount);
    Py_RETURN_NONE;
}

/* close(): give everything back to the parent. */
static PyObject *
pool_close(Pool *self, PyObject *Py_UNUSED(args))
{
    const LawPool *account = &self->account;
    uint64_t left = account->left == LAW_OPEN ? 0 : (uint64_t)account->left;
    if (!rule_holds(self->parent != NULL, "only a sub-pool is closed") || !rule_holds(account->lent == 0, "BUDGET-4") ||
        !rule_holds(account->granted == left + account->spent, "BUDGET-1")) {
        return NULL;
    }
    law_pool_close(&self->account);
    Py_RETURN_NONE;
}

/* Refuse to delete an attribute (`del pool.left`): CPython then calls the setter with NULL. */
static bool
require_value(PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "the attributes of a pool cannot be deleted");
    }
    return value != NULL;
}

static PyObject *
get_left(Pool *self, void *Py_UNUSED(closure))
{
    return self->account.left == LAW_OPEN ? NOTHING : PyLong_FromLongLong(self->account.left);
}

static int
set_left(Pool *self, PyObject *value, void *Py_UNUSED(closure))
{
    int64_t left;
    if (!require_value(value) || !left_from(value, &left)) {
        return -1;
    }
    self->account.left = left;
    return 0;
}

/* The getter and setter of all counts. The closure is the offset of the count. */
#define COUNT(field) ((void *)offsetof(LawPool, field))

static PyObject *
get_count(Pool *self, void *where)
{
    return PyLong_FromUnsignedLongLong(*(uint64_t *)(void *)((char *)&self->account + (size_t)where));
}

static int
set_count(Pool *self, PyObject *value, void *where)
{
    if (!require_value(value)) {
        return -1;
    }
    uint64_t count = PyLong_AsUnsignedLongLong(value);
    if (count == UINT64_MAX && PyErr_Occurred()) {
        return -1;
    }
    *(uint64_t *)(void *)((char *)&self->account + (size_t)where) = count;
    return 0;
}

static PyObject *
get_parent(Pool *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->parent == NULL ? Py_None : (PyObject *)self->parent);
}

static int
set_parent(Pool *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (!require_value(value)) {
        return -1;
    }
    if (value != Py_None && Py_TYPE(value) != Py_TYPE(self)) {
        PyErr_SetString(PyExc_TypeError, "the parent of a pool is a Pool or None");
        return -1;
    }
    pool_set_parent(self, value == Py_None ? NULL : (Pool *)value);
    return 0;
}

static PyMethodDef pool_methods[] = {
    {"lend", (PyCFunction)pool_lend, METH_O, "Make a sub-pool with `amount` in it. This pool must have that amount."},
    {"fill", (PyCFunction)pool_fill, METH_VARARGS, "Move `amount` down into a sub-pool."},
    {"mint", (PyCFunction)pool_mint, METH_O, "Add an amount that comes from no parent."},
    {"close", (PyCFunction)pool_close, METH_NOARGS, "Give everything back to the parent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef pool_getset[] = {
    {"left", (getter)get_left, (setter)set_left, "what can be spent or lent; None: no limit", NULL},
    {"granted", (getter)get_count, (setter)set_count, "the sum of all amounts that were put in", COUNT(granted)},
    {"minted", (getter)get_count, (setter)set_count, "the part of `granted` that came from a CapBudget", COUNT(minted)},
    {"spent", (getter)get_count, (setter)set_count, "what was spent, here and in closed sub-pools", COUNT(spent)},
    {"lent", (getter)get_count, (setter)set_count, "what was lent to open sub-pools", COUNT(lent)},
    {"parent", (getter)get_parent, (setter)set_parent, "the pool from which this pool is filled, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pool_slots[] = {
    {Py_tp_doc, (void *)pool_doc},         {Py_tp_new, (void *)pool_new},
    {Py_tp_dealloc, (void *)pool_dealloc}, {Py_tp_traverse, (void *)pool_traverse},
    {Py_tp_clear, (void *)pool_clear},     {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_getset},           {0, NULL},
};

PyType_Spec pool_spec = {
    .name = "bursar._native.Pool",
    .basicsize = (int)sizeof(Pool),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pool_slots,
};

/* ---- all pools of a purse
 *
 * The pools of named counters are Pool objects of Python: a purse that has them is a `NamedPools`, a subclass of tuple.
 * Only Python reads them, so the five pools cost the same with and without named counters. */

/* Add named pools to the five, as `name_pools` does: those of `parents`, which may be NULL, and those that `budget`
 * states. Steals `five`. On a failure the five are closed, and NULL is returned with an exception set. */
static PyObject *
with_named(ModuleState *st, PyObject *five, PyObject *parents, PyObject *budget)
{
    PyObject *args[] = {five, parents != NULL ? parents : Py_None, budget};
    PyObject *pools = py_call(st, PY_name_pools, args, 3);
    if (pools == NULL && parents != NULL) {
        for (int c = 0; c < LAW_COMPONENTS; c++) {
            if (pool_of(five, c) != pool_of(parents, c)) {
                law_pool_close(&pool_of(five, c)->account);
            }
        }
    }
    Py_DECREF(five);
    return pools;
}

/* The five numbers of a Budget; LAW_OPEN for None. 0, or -1 with an exception set. */
static int
limits_of(PyObject *budget, int64_t limits[LAW_COMPONENTS])
{
    PyObject *stated = PyObject_CallMethod(budget, "as_tuple", NULL);
    int failed = stated == NULL ? -1 : 0;
    if (failed == 0 && (!PyTuple_Check(stated) || PyTuple_GET_SIZE(stated) != LAW_COMPONENTS)) {
        PyErr_Format(PyExc_TypeError, "%R is not a Budget", budget);
        failed = -1;
    }
    for (int c = 0; failed == 0 && c < LAW_COMPONENTS; c++) {
        failed = left_from(PyTuple_GET_ITEM(stated, c), &limits[c]) ? 0 : -1;
    }
    Py_XDECREF(stated);
    return failed;
}

PyObject *
pools_root(ModuleState *st, PyObject *budget)
{
    int64_t limits[LAW_COMPONENTS];
    if (limits_of(budget, limits) < 0) {
        return NULL;
    }
    PyObject *pools = PyTuple_New(LAW_COMPONENTS);
    for (int c = 0; pools != NULL && c < LAW_COMPONENTS; c++) {
        Pool *pool = pool_alloc(st->Pool);
        if (pool == NULL) {
            Py_CLEAR(pools);
            break;
        }
        law_pool_init(&pool->account, limits[c]);
        PyTuple_SET_ITEM(pools, c, (PyObject *)pool);
    }
    return pools == NULL ? NULL : with_named(st, pools, NULL, budget);
}

/* All pools are made before any amount is lent, so a failure changes nothing. */
PyObject *
pools_derive(ModuleState *st, PyObject *parents, PyObject *budget)
{
    int64_t limits[LAW_COMPONENTS];
    PyObject *pools = limits_of(budget, limits) < 0 ? NULL : PyTuple_New(LAW_COMPONENTS);
    for (int c = 0; pools != NULL && c < LAW_COMPONENTS; c++) {
        Pool *parent = pool_of(parents, c);
        PyObject *pool = limits[c] == LAW_OPEN ? Py_NewRef((PyObject *)parent) : (PyObject *)pool_alloc(st->Pool);
        if (pool == NULL) {
            Py_CLEAR(pools);
            break;
        }
        PyTuple_SET_ITEM(pools, c, pool);
    }
    for (int c = 0; pools != NULL && c < LAW_COMPONENTS; c++) {
        if (limits[c] != LAW_OPEN) {
            pool_set_parent(pool_of(pools, c), pool_of(parents, c));
            law_pool_lend(&pool_of(parents, c)->account, &pool_of(pools, c)->account, limits[c]);
        }
    }
    return pools == NULL ? NULL : with_named(st, pools, parents, budget);
}

void
pools_refund(PyObject *pools, const LawCost *cost)
{
    for (unsigned i = 0; i < cost->n; i++) {
        LawPool *account = &pool_of(pools, cost->component[i])->account;
        account->spent -= (uint64_t)cost->amount[i];
        account->left += account->left == LAW_OPEN ? 0 : cost->amount[i];
    }
}

/* Close those of `pools` that are not shared with `parents`. LAW_RULE ends the process if a rule is broken; only named
 * pools, which Python closes, can fail. */
int
pools_close(ModuleState *st, PyObject *pools, PyObject *parents)
{
    for (int i = 0; i < LAW_COMPONENTS; i++) {
        if (pool_of(pools, i) != pool_of(parents, i)) {
            law_pool_close(&pool_of(pools, i)->account);
        }
    }
    if (PyTuple_CheckExact(pools)) {
        return 0;
    }
    PyObject *args[] = {pools, parents}, *closed = py_call(st, PY_close_named, args, 2);
    Py_XDECREF(closed);
    return closed == NULL ? -1 : 0;
}

bool
pools_measured(PyObject *pools)
{
    if (PyTuple_CheckExact(pools)) {
        return false;
    }
    PyObject *named = PyObject_GetAttrString(pools, "named");
    bool measured = named != NULL && PyMapping_HasKeyString(named, "cpu_ns");
    Py_XDECREF(named);
    PyErr_Clear();
    return measured;
}

PyObject *
pools_for(Kernel *k, PyObject *parents, PyObject **budget)
{
    if (*budget == k->st->UNSTATED) {
        return Py_NewRef(parents);
    }
    PyObject *args[] = {parents, *budget}, *granted = py_call(k->st, PY_affordable, args, 2);
    if (granted == NULL) {
        return NULL;
    }
    Py_SETREF(*budget, granted);
    if (granted == k->st->UNSTATED) {
        return Py_NewRef(parents);
    }
    PyObject *pools = pools_derive(k->st, parents, granted);
    if (pools != NULL && pools_measured(pools)) {
        PyObject *driver = k->runtime != NULL ? PyObject_GetAttrString(k->runtime, "driver") : NULL;
        if (driver == NULL || PyObject_SetAttrString(driver, "measured", Py_True) < 0) {
            PyErr_Clear(); /* a kernel without a driver measures nothing */
        }
        Py_XDECREF(driver);
    }
    return pools;
}

void
return_pools(Kernel *k, PyObject *pools, PyObject *parents)
{
    if (pools == NULL || pools == parents) {
        return;
    }
    PyObject *error = PyErr_GetRaisedException(); /* a caller may clean up after one */
    if (pools_close(k->st, pools, parents) < 0) {
        PyErr_WriteUnraisable(pools);
    }
    if (error != NULL) {
        PyErr_SetRaisedException(error);
    }
}
