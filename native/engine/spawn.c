/* Spawning: pay, make a record, count it in, queue it. What is promised is in nursery.h.
 *
 * Everything that can fail is done before the child is counted, and undone in reverse: a refused spawn leaves nothing
 * behind. The owner does it without a lock, everybody else under the nursery's.
 */
#include "engine/lender.h"
#include "engine/scheduler.h"

#define PREPAID_SPAWNS INT64_C(64) /* spawns that an owner pays for at once: one visit to the books instead of 64 */

/* The purse has no op left. If it has a lender, the owner asks him. True: look again. */
static bool
may_borrow(Nursery *nursery, Task *owner)
{
    Lender *lender = nursery->purse->of[LAW_OPS]->lender;
    return lender != NULL && !task_cancelled(owner) && lender_hold(lender, owner, LAW_OPS, 1);
}

/* Pay for one spawn. The owner pays for several at once. What the caller has drawn for its turn goes back first: it may be
 * all that there is. */
static bool
pay_spawn(Nursery *nursery, Task *caller, bool mine)
{
    Books *books = &nursery->scheduler->books;
    if (nursery->free_spawns) {
        return true;
    }
    if (caller != NULL && nursery->prepaid == 0) {
        task_settle(caller);
    }
    if (mine && nursery->prepaid == 0) {
        const LawCost many = {{PREPAID_SPAWNS, PREPAID_SPAWNS}, {LAW_OPS, LAW_SPAWNS}, 2};
        nursery->prepaid = purse_pay(books, nursery->purse, &many) == LAW_PAID ? PREPAID_SPAWNS : 0;
    }
    if (mine && nursery->prepaid > 0) {
        nursery->prepaid -= 1;
        return true;
    }
    int short_of = purse_pay(books, nursery->purse, &LAW_SPAWN);
    while (short_of == LAW_OPS && mine && may_borrow(nursery, caller)) { /* others hold the lock, and cannot wait */
        short_of = purse_pay(books, nursery->purse, &LAW_SPAWN);
    }
    return short_of == LAW_PAID;
}

static void
refund_spawn(Nursery *nursery)
{
    if (!nursery->free_spawns) {
        purse_refund(nursery->purse, &LAW_SPAWN);
    }
}

void
nursery_refund_prepaid(Nursery *nursery)
{
    const LawCost rest = {{nursery->prepaid, nursery->prepaid}, {LAW_OPS, LAW_SPAWNS}, 2};
    purse_refund(nursery->purse, &rest);
    nursery->prepaid = 0;
}

/* The purse of a child: ENGINE_OK, or why there is none. `grant` is what it may mint, taken from the caller's own. */
static int
child_purse(Nursery *nursery, Task *caller, const TaskOptions *options, Task *task)
{
    static const LawBudget nothing = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};
    static const LawBudget childless = {{LAW_OPEN, LAW_OPEN, 0, LAW_OPEN, LAW_OPEN}};
    const LawBudget *unsaid = nursery->scheduler->options.sovereign ? &childless : &nothing;
    const LawBudget *budget = options->budget != NULL ? options->budget : unsaid;
    Books *books = &nursery->scheduler->books;
    task->own_purse = law_budget_stated(budget) != 0;
    task->purse = nursery->purse;
    if (!task->own_purse) {
        return options->recharge == NULL ? ENGINE_OK : ENGINE_INVALID;
    }
    if (caller != NULL) {
        task_settle(caller);
    }
    bool memory_short;
    Purse *purse = purse_lend(books, nursery->purse, budget, &memory_short);
    if (purse == NULL) {
        return memory_short ? ENGINE_MEMORY : ENGINE_BUDGET;
    }
    task->purse = purse;
    if (options->lender != NULL) {
        lender_open(options->lender, purse);
    }
    if (options->recharge != NULL) { /* a root may grant it; a task only what it has itself */
        bool allowed = caller == NULL || (caller->own_purse && law_budget_within(options->recharge, &caller->purse->mint_left));
        if (!allowed) {
            purse_close(books, purse);
            return ENGINE_BUDGET;
        }
        for (int c = 0; caller != NULL && c < LAW_COMPONENTS; c++) {
            if (caller->purse->mint_left.limit[c] != LAW_OPEN) {
                caller->purse->mint_left.limit[c] -= options->recharge->limit[c];
            }
        }
        purse->mint_left = *options->recharge;
    }
    return ENGINE_OK;
}

static void
task_fill(Task *task, Nursery *nursery, const TaskOptions *options, unsigned class)
{
    if (options->through == NULL) {
        fiber_init(&task->fiber, options->name, options->entry, options->arg, class);
    } else {
        fiber_init(&task->fiber, options->name, options->through, task, class);
        task->entry = options->entry;
        task->arg = options->arg;
    }
    task->nursery = nursery;
    task->opened = NULL;
    task->value_out = options->value_out;
    task->done = options->done;
    task->done_arg = options->done_arg;
    task->ticks_left = task->ticks_drawn = 0;
    task->cleanup_left = nursery->scheduler->options.cleanup_calls;
    task->linked = task->told = task->exceeded = task->cut_off = false;
    task->kind = END_OK;
    task->awaited.kind = END_NONE;
    task_word_begin(task);
}

/* A record, filled in and paid for, or NULL and the reason. */
static Task *
make(Nursery *nursery, Task *caller, const TaskOptions *options, bool mine, int *error)
{
    Scheduler *scheduler = nursery->scheduler;
    unsigned class = options->stack_bytes == 0 ? 0 : stack_class(options->stack_bytes);
    *error = class >= STACK_CLASSES || options->entry == NULL ? ENGINE_INVALID
             : nursery_state(nursery) != LAW_NURSERY_OPEN     ? ENGINE_CLOSED /* N2 */
             : !pay_spawn(nursery, caller, mine)                     ? ENGINE_BUDGET
                                                              : ENGINE_OK;
    if (__builtin_expect(*error != ENGINE_OK, 0)) {
        return NULL;
    }
    Task *task = caller != NULL ? slab_cache_take(&task_worker(caller)->host->tasks) : slab_take(&scheduler->tasks);
    *error = task == NULL ? ENGINE_MEMORY : child_purse(nursery, caller, options, task);
    if (__builtin_expect(*error != ENGINE_OK, 0)) {
        if (task != NULL) {
            slab_give(&scheduler->tasks, task);
        }
        refund_spawn(nursery);
        return NULL;
    }
    task_fill(task, nursery, options, class);
    return task;
}

/* The same by somebody who is not the owner: all of it under the lock, so that the nursery stays what it is. */
static Task *
make_for_other(Nursery *nursery, uint32_t generation, Task *caller, const TaskOptions *options, int *error)
{
    Task *task = NULL;
    *error = ENGINE_INVALID;
    lock_take(&nursery->lock);
    if (load_u32(&nursery->head.generation, RELAXED) == generation) {
        task = make(nursery, caller, options, false, error);
    }
    if (task != NULL) {
        add_i64(&nursery->live, 1, RELAXED);
        task->id = nursery->id << 32 | (2 * ++nursery->handed & 0xffffffff);
    }
    lock_give(&nursery->lock);
    return task;
}

int
nursery_spawn(Nursery *nursery, uint32_t generation, Task *caller, const TaskOptions *options, uint64_t *child)
{
    int error;
    Task *task;
    if (caller != NULL) {
        task_need_stack(caller);
        if (__builtin_expect(task_cancelled(caller), 0)) {
            return task_refuse(caller, ENGINE_CANCELLED);
        }
    }
    if (caller != NULL && nursery->owner == caller) {
        task = make(nursery, caller, options, true, &error);
        if (task != NULL) {
            task->id = nursery->id << 32 | ((2 * nursery->spawned++ + 1) & 0xffffffff); /* N5 */
        }
    } else {
        task = make_for_other(nursery, generation, caller, options, &error);
    }
    if (task == NULL) {
        bool told = error == ENGINE_BUDGET && caller != NULL && task_cancelled(caller); /* while it waited for a lender */
        return told ? task_refuse(caller, ENGINE_CANCELLED) : error;
    }
    Scheduler *scheduler = nursery->scheduler;
    if (child != NULL) {
        *child = task->head.index | (uint64_t)load_u32(&task->head.generation, RELAXED) << 32;
    }
    if (caller == NULL) {
        add_u64(&scheduler->outside_spawned, 1, RELAXED);
        inject_push(&scheduler->injector, &task->inject);
    } else {
        Worker *worker = task_worker(caller);
        count_one(&worker->statistics.spawned);
        if (__builtin_expect(!deque_push(&worker->fresh, task), 0)) {
            inject_push(&scheduler->injector, &task->inject); /* W2 */
        }
    }
    scheduler_notify(scheduler);
    return ENGINE_OK;
}
