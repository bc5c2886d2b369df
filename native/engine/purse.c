/* Purses: paying, lending and closing. The contract is in purse.h. */
#include "engine/purse.h"

static void
pool_init(Pool *pool, int64_t left, Pool *parent)
{
    init_i64(&pool->left, left);
    init_i64(&pool->spent, 0);
    pool->granted = left == LAW_OPEN ? 0 : left;
    pool->lent = pool->minted = 0;
    pool->parent = parent;
    pool->lender = NULL;
}

void
purse_set_init(PurseSet *purse_set, const LawBudget *budget, const EngineAllocator *memory)
{
    lock_init(&purse_set->lock);
    slab_init(&purse_set->purses, (sizeof(Purse) + 15) / 16 * 16, NULL, memory);
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        pool_init(&purse_set->root.own[c], budget->limit[c], NULL);
        purse_set->root.of[c] = &purse_set->root.own[c];
        purse_set->root.mint_left.limit[c] = 0;
    }
}

void
purse_set_destroy(PurseSet *purse_set)
{
    slab_destroy(&purse_set->purses);
}

/* One attempt, which may fail because of another thread's trial (PURSE-2). */
static bool
try_take(Pool *pool, int64_t amount)
{
    int64_t left = load_i64(&pool->left, RELAXED);
    do {
        if (!law_can_pay(left, amount)) {
            return false;
        }
        if (left == LAW_OPEN) {
            return true;
        }
    } while (!cas_i64(&pool->left, &left, left - amount, RELAXED));
    add_i64(&pool->spent, amount, RELAXED);
    return true;
}

bool
pool_take(PurseSet *purse_set, Pool *pool, int64_t amount)
{
    if (try_take(pool, amount)) {
        return true;
    }
    lock_take(&purse_set->lock);
    bool taken = try_take(pool, amount);
    lock_give(&purse_set->lock);
    return taken;
}

void
pool_return(Pool *pool, int64_t amount)
{
    if (!pool_open(pool) && amount != 0) {
        add_i64(&pool->left, amount, RELAXED);
        add_i64(&pool->spent, -amount, RELAXED);
    }
}

int64_t
pool_draw(PurseSet *purse_set, Pool *pool, int64_t least, int64_t most)
{
    int64_t left = load_i64(&pool->left, RELAXED);
    int64_t wanted = left == LAW_OPEN || left >= most ? most : left > least ? left : least;
    if (pool_take(purse_set, pool, wanted)) {
        return wanted;
    }
    return wanted != least && pool_take(purse_set, pool, least) ? least : 0;
}

void
purse_refund(Purse *purse, const LawCost *cost)
{
    for (unsigned i = 0; i < cost->n; i++) {
        pool_return(purse->of[cost->component[i]], cost->amount[i]);
    }
}

/* Pay the whole cost, under the lock. At a shortage, what was taken goes back (BUDGET-3). */
static int
pay_all(Purse *purse, const LawCost *cost)
{
    for (unsigned i = 0; i < cost->n; i++) {
        if (!try_take(purse->of[cost->component[i]], cost->amount[i])) {
            LawCost taken = *cost;
            taken.n = (uint8_t)i;
            purse_refund(purse, &taken);
            return cost->component[i];
        }
    }
    return LAW_PAID;
}

int
purse_pay(PurseSet *purse_set, Purse *purse, const LawCost *cost)
{
    unsigned limited = 0, which = 0;
    for (unsigned i = 0; i < cost->n; i++) {
        if (!pool_open(purse->of[cost->component[i]])) {
            limited += 1;
            which = i;
        }
    }
    if (limited == 0) {
        return LAW_PAID;
    }
    if (limited == 1) {
        unsigned component = cost->component[which];
        return pool_take(purse_set, purse->of[component], cost->amount[which]) ? LAW_PAID : (int)component;
    }
    lock_take(&purse_set->lock);
    int short_of = pay_all(purse, cost);
    lock_give(&purse_set->lock);
    return short_of;
}

/* Move as much of `wish` as the pool has into the purse's own pool. Under the lock. */
static int64_t
lend(Pool *from, Pool *own, int64_t wish)
{
    int64_t left = load_i64(&from->left, RELAXED), amount;
    do {
        amount = law_least(wish, left);
    } while (left != LAW_OPEN && !cas_i64(&from->left, &left, left - amount, RELAXED));
    from->lent += left == LAW_OPEN ? 0 : amount;
    pool_init(own, amount, from);
    return amount;
}

Purse *
purse_lend(PurseSet *purse_set, Purse *from, const LawBudget *budget, bool *memory_short)
{
    Purse *purse = slab_take(&purse_set->purses);
    *memory_short = purse == NULL;
    if (purse == NULL) {
        return NULL;
    }
    lock_take(&purse_set->lock);
    bool starved = false;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        purse->mint_left.limit[c] = 0;
        purse->of[c] = from->of[c];
        if (budget->limit[c] != LAW_OPEN) {
            int64_t amount = lend(from->of[c], &purse->own[c], budget->limit[c]);
            purse->of[c] = &purse->own[c];
            starved |= c == LAW_OPS && amount == 0 && budget->limit[c] > 0;
        }
    }
    lock_give(&purse_set->lock);
    if (starved) {
        purse_close(purse_set, purse);
        return NULL;
    }
    return purse;
}

void
purse_close(PurseSet *purse_set, Purse *purse)
{
    lock_take(&purse_set->lock);
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        Pool *own = &purse->own[c], *parent = own->parent;
        if (purse->of[c] != own) {
            continue;
        }
        LAW_RULE(own->lent == 0, "BUDGET-4");
        int64_t left = load_i64(&own->left, RELAXED), spent = load_i64(&own->spent, RELAXED);
        LAW_RULE(own->granted == left + spent, "BUDGET-1");
        if (!pool_open(parent)) {
            parent->lent -= own->granted - own->minted;
            parent->granted += own->minted;
            parent->minted += own->minted;
            add_i64(&parent->spent, spent, RELAXED);
            add_i64(&parent->left, left, RELAXED);
        }
    }
    lock_give(&purse_set->lock);
    slab_give(&purse_set->purses, purse);
}

/* Whether the purse has its own pool for the component, and the sum can be represented. Under the lock. */
static bool
can_grow(const Purse *purse, int c, int64_t amount)
{
    return purse->of[c] == &purse->own[c] && amount <= LAW_UNITS_MAX - purse->own[c].granted;
}

int
purse_fill(PurseSet *purse_set, Purse *purse, const LawBudget *amount)
{
    int short_of = LAW_PAID;
    lock_take(&purse_set->lock);
    int c = 0;
    for (; c < LAW_COMPONENTS; c++) {
        if (amount->limit[c] <= 0) {
            continue;
        }
        if (!can_grow(purse, c, amount->limit[c]) || !try_take(purse->own[c].parent, amount->limit[c])) {
            short_of = c;
            break;
        }
    }
    for (int d = 0; d < c; d++) { /* what was taken moves down, or back */
        if (amount->limit[d] <= 0) {
            continue;
        }
        Pool *own = &purse->own[d];
        if (short_of != LAW_PAID) {
            pool_return(own->parent, amount->limit[d]);
            continue;
        }
        if (!pool_open(own->parent)) {
            add_i64(&own->parent->spent, -amount->limit[d], RELAXED);
            own->parent->lent += amount->limit[d];
        }
        own->granted += amount->limit[d];
        add_i64(&own->left, amount->limit[d], RELAXED);
    }
    lock_give(&purse_set->lock);
    return short_of;
}

int
purse_mint(PurseSet *purse_set, Purse *purse, const LawBudget *amount)
{
    int short_of = LAW_PAID;
    lock_take(&purse_set->lock);
    for (int c = 0; c < LAW_COMPONENTS && short_of == LAW_PAID; c++) {
        bool allowed = can_grow(purse, c, amount->limit[c]) && law_can_pay(purse->mint_left.limit[c], amount->limit[c]);
        short_of = amount->limit[c] > 0 && !allowed ? c : LAW_PAID;
    }
    for (int c = 0; c < LAW_COMPONENTS && short_of == LAW_PAID; c++) {
        if (amount->limit[c] <= 0) {
            continue;
        }
        if (purse->mint_left.limit[c] != LAW_OPEN) {
            purse->mint_left.limit[c] -= amount->limit[c];
        }
        purse->own[c].granted += amount->limit[c];
        purse->own[c].minted += amount->limit[c];
        add_i64(&purse->own[c].left, amount->limit[c], RELAXED);
    }
    lock_give(&purse_set->lock);
    return short_of;
}

LawBudget
purse_left(const Purse *purse)
{
    LawBudget left;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        left.limit[c] = load_i64(&purse->of[c]->left, RELAXED);
    }
    return left;
}
