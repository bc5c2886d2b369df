/* Spawning: pay, make a record, count it, queue it. The contract is in nursery.h.
 *
 * Everything that can fail comes before the child is counted, and is undone in reverse: a refused spawn leaves nothing
 * behind. The owner spawns without a lock, every other caller under the nursery's lock.
 */
#include "engine/spawn.h"

#include "engine/fast_paths.h"
#include "engine/lender.h"
#include "hints.h"

#define PREPAID_SPAWNS 64 /* spawns that are paid for at once: one payment instead of 64 */

/* The purse has no op left. If it has a lender, the owner asks the lender. True: try again. */
static bool
ask_lender(Nursery *nursery, Task *owner)
{
    Lender *lender = nursery->purse->of[LAW_OPS]->lender;
    return lender != NULL && !task_cancelled(owner) && lender_hold(lender, owner, LAW_OPS, 1);
}

/* Whether several spawns are at most a worker's share of what is left: tasks that run at the same time share a finite
 * pool, as with everything that is drawn (charge.c). */
static bool
can_prepay(const Nursery *nursery)
{
    static const unsigned components[] = {LAW_OPS, LAW_SPAWNS};
    for (int i = 0; i < 2; i++) {
        int64_t left = load_i64(&nursery->purse->of[components[i]]->left, RELAXED);
        if (left != LAW_OPEN && left / nursery->scheduler->worker_count < PREPAID_SPAWNS) {
            return false;
        }
    }
    return true;
}

/* Pay for several spawns at once if the purse has plenty, otherwise for one. The worker keeps the rest as credit, under
 * two conditions. First, the caller returns the credit before the nursery's purse can be closed: the purse is the
 * caller's, or the nursery is (`mine`). Second, a child needs nothing but a spawn: in a sovereign scheduler it needs
 * more. */
static NOINLINE bool
pay_spawns(Nursery *nursery, Task *caller, bool mine)
{
    static const LawCost many = {{PREPAID_SPAWNS, PREPAID_SPAWNS}, {LAW_OPS, LAW_SPAWNS}, 2};
    PurseSet *purse_set = &nursery->scheduler->purse_set;
    if (caller != NULL) {
        bool may_keep = (mine || caller->purse == nursery->purse) && !nursery->scheduler->options.sovereign;
        if (may_keep && can_prepay(nursery) && purse_pay(purse_set, nursery->purse, &many) == LAW_PAID) {
            credit_for(task_worker(caller), nursery->purse)->spawns += PREPAID_SPAWNS - 1;
            return true;
        }
        task_return_drawn(caller); /* what it has drawn may be all that there is */
    }
    int short_of = purse_pay(purse_set, nursery->purse, &LAW_SPAWN);
    while (short_of == LAW_OPS && mine &&
           ask_lender(nursery, caller)) { /* other callers hold the lock, so they cannot wait */
        short_of = purse_pay(purse_set, nursery->purse, &LAW_SPAWN);
    }
    return short_of == LAW_PAID;
}

static ALWAYS_INLINE bool
pay_spawn(Nursery *nursery, Task *caller, bool mine)
{
    Credit *credit = caller != NULL ? &task_worker(caller)->credit : NULL;
    if (credit != NULL && credit_has_spawn(credit, nursery->purse)) {
        credit->spawns -= 1;
        return true;
    }
    return pay_spawns(nursery, caller, mine);
}

/* Make the purse of a child. Returns ENGINE_OK, or the error. `recharge` is what the child may mint, taken from what
 * the caller may. */
static NOINLINE int
own_purse(Nursery *nursery, Task *caller, const LawBudget *budget, const LawBudget *recharge, Lender *lender,
          Task *task)
{
    static const LawBudget nothing = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};
    static const LawBudget childless = {{LAW_OPEN, LAW_OPEN, 0, LAW_OPEN, LAW_OPEN}};
    const LawBudget *unsaid = nursery->scheduler->options.sovereign ? &childless : &nothing;
    budget = budget != NULL ? budget : unsaid;
    PurseSet *purse_set = &nursery->scheduler->purse_set;
    if (law_budget_stated(budget) == 0) {
        return recharge == NULL ? ENGINE_OK : ENGINE_INVALID;
    }
    if (caller != NULL) {
        task_return_drawn(caller);
    }
    bool memory_short;
    Purse *purse = purse_lend(purse_set, nursery->purse, budget, &memory_short);
    if (purse == NULL) {
        return memory_short ? ENGINE_MEMORY : ENGINE_BUDGET;
    }
    task->purse = purse;
    if (lender != NULL) {
        lender_open(lender, purse);
    }
    if (recharge != NULL) { /* a root may grant any amount; a task only what it has itself */
        bool allowed =
            caller == NULL || (caller->marks.own_purse && law_budget_within(recharge, &caller->purse->mint_left));
        if (!allowed) {
            purse_close(purse_set, purse);
            return ENGINE_BUDGET;
        }
        for (int c = 0; caller != NULL && c < LAW_COMPONENTS; c++) {
            if (caller->purse->mint_left.limit[c] != LAW_OPEN) {
                caller->purse->mint_left.limit[c] -= recharge->limit[c];
            }
        }
        purse->mint_left = *recharge;
    }
    return ENGINE_OK;
}

/* In the usual case the child shares the nursery's purse. */
static ALWAYS_INLINE int
child_purse(Nursery *nursery, Task *caller, const TaskOptions *options, Task *task)
{
    task->purse = nursery->purse;
    bool unsaid = options->budget == NULL && options->recharge == NULL && options->lender == NULL;
    bool plain = unsaid && !nursery->scheduler->options.sovereign;
    if (LIKELY(plain)) {
        return ENGINE_OK;
    }
    return own_purse(nursery, caller, options->budget, options->recharge, options->lender, task);
}

static ALWAYS_INLINE void
task_fill(Task *task, Nursery *nursery, const TaskOptions *options, unsigned class)
{
    if (options->through == NULL) {
        fiber_init(&task->fiber, options->name, options->entry, options->arg, class);
    } else {
        fiber_init(&task->fiber, options->name, options->through, task, class);
        task->entry = options->entry;
        task->arg = options->arg;
    }
    bool has_listener = options->value_out != NULL || options->done != NULL;
    task_init(task, nursery);
    if (UNLIKELY(has_listener || task->purse != nursery->purse)) {
        task->marks.own_purse = task->purse != nursery->purse;
        task->marks.has_listener = has_listener;
    }
    if (has_listener) {
        task->value_out = options->value_out;
        task->done = options->done;
        task->done_arg = options->done_arg;
    }
}

/* Make a record, filled in and paid for. Returns NULL and sets `*error` if it cannot. Inline: options that are not set
 * cost nothing. */
static ALWAYS_INLINE Task *
make(Nursery *nursery, Task *caller, const TaskOptions *options, bool mine, int *error)
{
    Scheduler *scheduler = nursery->scheduler;
    unsigned class = options->stack_bytes == 0 ? 0 : stack_class(options->stack_bytes);
    *error = class >= STACK_CLASSES || options->entry == NULL ? ENGINE_INVALID
             : nursery_state(nursery) != LAW_NURSERY_OPEN     ? ENGINE_CLOSED /* NURSERY-2 */
             : !pay_spawn(nursery, caller, mine)              ? ENGINE_BUDGET
                                                              : ENGINE_OK;
    if (UNLIKELY(*error != ENGINE_OK)) {
        return NULL;
    }
    Task *task = caller != NULL ? slab_cache_take(&task_worker(caller)->host->tasks) : slab_take(&scheduler->tasks);
    *error = task == NULL ? ENGINE_MEMORY : child_purse(nursery, caller, options, task);
    if (UNLIKELY(*error != ENGINE_OK)) {
        if (task != NULL) {
            slab_give(&scheduler->tasks, task);
        }
        purse_refund(nursery->purse, &LAW_SPAWN);
        return NULL;
    }
    task_fill(task, nursery, options, class);
    return task;
}

/* The same for a caller that is not the owner: under the lock, so that the nursery does not change meanwhile. */
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
        task->number = (uint32_t)(2 * ++nursery->spawned_by_others);
    }
    lock_give(&nursery->lock);
    return task;
}

/* The owner spawns, without a lock. */
static ALWAYS_INLINE int
spawn_own(Nursery *nursery, Task *caller, const TaskOptions *options, uint64_t *child)
{
    int error;
    if (UNLIKELY(task_must_stop(caller))) {
        return task_refuse(caller, ENGINE_CANCELLED);
    }
    Task *task = make(nursery, caller, options, true, &error);
    if (UNLIKELY(task == NULL)) {
        bool must_stop = error == ENGINE_BUDGET &&
                         task_must_stop(caller); /* it may have been cancelled while it waited for a lender */
        return must_stop ? task_refuse(caller, ENGINE_CANCELLED) : error;
    }
    task->number = nursery_next_number(nursery);
    if (child != NULL) {
        *child = task->head.index | (uint64_t)load_u32(&task->head.generation, RELAXED) << 32;
    }
    worker_queue_fresh(task_worker(caller), task);
    return ENGINE_OK;
}

int
nursery_spawn(Nursery *nursery, uint32_t generation, Task *caller, const TaskOptions *options, uint64_t *child)
{
    int error;
    if (caller != NULL && nursery->owner == caller) {
        return spawn_own(nursery, caller, options, child);
    }
    if (caller != NULL && UNLIKELY(task_must_stop(caller))) {
        return task_refuse(caller, ENGINE_CANCELLED);
    }
    Task *task = make_for_other(nursery, generation, caller, options, &error);
    if (task == NULL) {
        return error;
    }
    Scheduler *scheduler = nursery->scheduler;
    if (child != NULL) {
        *child = task->head.index | (uint64_t)load_u32(&task->head.generation, RELAXED) << 32;
    }
    if (caller != NULL) {
        worker_queue_fresh(task_worker(caller), task);
    } else {
        add_u64(&scheduler->outside_spawned, 1, RELAXED);
        inject_push(&scheduler->injector, &task->inject);
        scheduler_notify(scheduler);
    }
    return ENGINE_OK;
}
