/* Nurseries: opening, cancelling, awaiting. Spawning is in spawn.c; the contract is in nursery.h. */
#include "engine/nursery.h"

#include "engine/help_children.h"
#include "engine/scheduler.h"
#include "engine/task_leave.h"
#include "engine/task_requests.h"
#include "hints.h"

void
nursery_prepare(void *record)
{
    Nursery *nursery = record;
    lock_init(&nursery->lock);
    law_queue_init(&nursery->have_waited);
}

/* Move to another state. Under the lock, or before any other thread knows the nursery. */
static inline void
move(Nursery *nursery, LawNurseryState to)
{
    LawNurseryState from = nursery_state(nursery);
    LAW_RULE(law_nursery_may_move(from, to), "CHILDREN-2");
    store_u32(&nursery->state, to, RELEASE);
}

/* Make the nursery's own purse. Returns ENGINE_OK, or the error. */
static int
open_purse(Nursery *nursery, Purse *from, const LawBudget *budget)
{
    bool memory_short;
    nursery->purse = purse_lend(&nursery->scheduler->purse_set, from, budget, &memory_short);
    return nursery->purse != NULL ? ENGINE_OK : memory_short ? ENGINE_MEMORY : ENGINE_BUDGET;
}

/* A number that no other nursery has: each worker has its own residue class, and so have the outside threads. */
static uint64_t
next_id(Scheduler *scheduler, Worker *worker)
{
    uint64_t classes = (uint64_t)scheduler->worker_count + 1;
    return worker != NULL ? ++worker->nursery_count * classes + worker->id + 1
                          : (add_u64(&scheduler->next_nursery, 1, RELAXED) + 1) * classes;
}

Nursery *
nursery_open(Scheduler *scheduler, Task *owner, const NurseryOptions *options, int *error)
{
    if (owner != NULL && (*error = task_charge_op(owner)) != ENGINE_OK) {
        return NULL;
    }
    *error =
        load_u32(&scheduler->phase, RELAXED) == SCHEDULER_RUNNING || owner != NULL ? ENGINE_MEMORY : ENGINE_STOPPING;
    Worker *worker = owner != NULL ? task_worker(owner)->host : NULL;
    Nursery *nursery = *error == ENGINE_STOPPING ? NULL
                       : worker != NULL          ? slab_cache_take(&worker->nurseries)
                                                 : slab_take(&scheduler->nurseries);
    if (nursery == NULL) {
        return NULL;
    }
    nursery->scheduler = scheduler;
    nursery->owner = owner;
    Purse *from = owner != NULL ? owner->purse : &scheduler->purse_set.root;
    nursery->own_purse = options != NULL && law_budget_stated(&options->budget) != 0;
    nursery->purse = from;
    if (owner != NULL && nursery->own_purse) {
        task_return_drawn(owner); /* what it has drawn for its turn may be all that can be lent */
    }
    *error = nursery->own_purse ? open_purse(nursery, from, &options->budget) : ENGINE_OK;
    if (*error != ENGINE_OK) {
        slab_give(&scheduler->nurseries, nursery);
        return NULL;
    }
    store_i64(&nursery->live, NURSERY_BIAS, RELAXED);
    store_u32(&nursery->state, LAW_NURSERY_OPEN, RELAXED);
    store_u32(&nursery->drained, 0, RELAXED);
    nursery->id = next_id(scheduler, worker);
    nursery->spawned = nursery->ended = nursery->spawned_by_others = 0;
    nursery->requests_seen = load_u32(&scheduler->requests, RELAXED); /* none of these was to it, or to a child */
    nursery->keep_going = options != NULL && options->keep_going;
    nursery->hold = options != NULL && options->hold;
    nursery->failed = false;
    nursery->awaits = AWAIT_NONE;
    nursery->outer = owner != NULL ? owner->opened : NULL;
    if (owner != NULL) {
        owner->opened = nursery;
    } else {
        lock_take(&scheduler->roots_lock);
        law_queue_append(&scheduler->roots, &nursery->root_link);
        lock_give(&scheduler->roots_lock);
    }
    return nursery;
}

/* ---- cancelling */

/* The first request wakes the children that wait; the others see it where they could wait. Under the lock. */
static bool
cancel_locked(Nursery *nursery, LawCancelKind kind)
{
    Scheduler *scheduler = nursery->scheduler;
    LawNurseryState state = nursery_state(nursery);
    if (state != LAW_NURSERY_OPEN && state != LAW_NURSERY_CLOSING) {
        return false;
    }
    move(nursery, LAW_NURSERY_CANCELLING);
    nursery->cancel_kind = (uint8_t)kind;
    add_u32(&scheduler->requests, 1, RELEASE);
    fence_heavy(scheduler->idle.asymmetric); /* see nursery_run_cancel_hook */
    LawLink *link = law_queue_oldest(&nursery->have_waited);
    for (; link != NULL; link = law_queue_newer(&nursery->have_waited, link)) {
        worker_wake(scheduler, NULL, LAW_RECORD(link, Task, nursery_link), TO_CANCEL, true);
    }
    return true;
}

/* Called without a lock: the hook may do anything except wait. The fence of cancel_locked orders this load of `watched`
 * against a thread that sets `watched` and then checks whether the nursery is cancelled. */
void
nursery_run_cancel_hook(Nursery *nursery, uint32_t generation, LawCancelKind kind)
{
    const SchedulerOptions *options = &nursery->scheduler->options;
    if (options->cancel_hook != NULL && load_u32(&nursery->watched, RELAXED) != 0) {
        options->cancel_hook(options->hook_context, nursery, generation, kind);
    }
}

LawCancelKind
nursery_reason(Nursery *nursery)
{
    lock_take(&nursery->lock);
    LawCancelKind kind = (LawCancelKind)nursery->cancel_kind;
    lock_give(&nursery->lock);
    return kind;
}

bool
nursery_cancel_silent(Nursery *nursery, LawCancelKind kind)
{
    if (nursery_cancelled(nursery)) {
        return false;
    }
    lock_take(&nursery->lock);
    bool first = cancel_locked(nursery, kind);
    lock_give(&nursery->lock);
    return first;
}

bool
nursery_cancel(Nursery *nursery, LawCancelKind kind)
{
    uint32_t generation = load_u32(&nursery->head.generation, RELAXED);
    bool first = nursery_cancel_silent(nursery, kind);
    if (first) {
        nursery_run_cancel_hook(nursery, generation, kind);
    }
    return first;
}

int
nursery_cancel_if(Nursery *nursery, uint32_t generation, LawCancelKind kind)
{
    lock_take(&nursery->lock);
    bool same = load_u32(&nursery->head.generation, RELAXED) == generation;
    bool first = same && cancel_locked(nursery, kind);
    lock_give(&nursery->lock);
    if (first) {
        nursery_run_cancel_hook(nursery, generation, kind);
    }
    return same ? ENGINE_OK : ENGINE_INVALID;
}

void
nursery_note_failure(Nursery *nursery, const Ending *ending)
{
    lock_take(&nursery->lock);
    if (!nursery->failed) { /* NURSERY-4 */
        nursery->failed = true;
        nursery->failure = *ending;
    }
    bool cancel = !nursery->keep_going;
    lock_give(&nursery->lock);
    if (cancel) {
        nursery_cancel(nursery, LAW_CANCEL_SIBLING);
    }
}

/* ---- awaiting */

/* The owner takes no more children. */
static void
begin_closing(Nursery *nursery)
{
    lock_take(&nursery->lock);
    if (nursery_state(nursery) == LAW_NURSERY_OPEN) {
        move(nursery, LAW_NURSERY_CLOSING);
    }
    lock_give(&nursery->lock);
}

/* From here on there are no spawns, and the thread that ends the last child wakes the waiter of kind `kind`
 * (CHILDREN-3). True: no child is left. */
static bool
begin_wait(Nursery *nursery, AwaitKind kind, Task *task, Parker *parker)
{
    begin_closing(nursery);
    nursery->awaits = (uint8_t)kind;
    nursery->await_task = task;
    nursery->await_parker = parker;
    int64_t counted = (int64_t)(nursery->spawned - nursery->ended) - NURSERY_BIAS;
    return add_i64(&nursery->live, counted, ACQ_REL) + counted == 0;
}

Task *
nursery_child_ended(Worker *worker, Nursery *nursery)
{
    if (add_i64(&nursery->live, -1, ACQ_REL) != 1) {
        return NULL;
    }
    Scheduler *scheduler = nursery->scheduler;
    AwaitKind kind = (AwaitKind)nursery->awaits;
    Task *task = nursery->await_task;
    Parker *parker = nursery->await_parker;
    store_u32(&nursery->drained, 1, RELEASE); /* from here on the nursery belongs to the waiter (CHILDREN-3) */
    if (kind == AWAIT_TASK) {
        worker_wake(scheduler, worker, task, TO_JOIN, true);
    } else if (kind == AWAIT_THREAD) {
        parker_wake(parker, 1);
    }
    return kind == AWAIT_END ? task : NULL;
}

bool
nursery_abandon(Nursery *nursery)
{
    nursery_cancel(nursery, LAW_CANCEL_PARENT);
    return begin_wait(nursery, AWAIT_END, nursery->owner, NULL);
}

/* Enter the terminal state and compute the result. Under the lock. */
static inline void
enter_terminal_state(Nursery *nursery, Ending *ending)
{
    bool cancelled = nursery_state(nursery) == LAW_NURSERY_CANCELLING;
    move(nursery, cancelled ? LAW_NURSERY_CANCELLED : LAW_NURSERY_CLOSED);
    if (UNLIKELY(nursery->failed)) {
        *ending = nursery->failure;
        return;
    }
    bool stopped = law_nursery_result(LAW_OUTCOME_OK, cancelled) == LAW_OUTCOME_CANCELLED;
    ending->kind = stopped ? END_CANCELLED
                           : END_OK; /* field by field: a copy of the whole would wait for the stores of its parts */
    ending->task_id = 0;
    ending->code = 0;
}

/* Leave the owner's list of opened nurseries, and give the purse back. */
static inline void
leave_owner(Nursery *nursery)
{
    Scheduler *scheduler = nursery->scheduler;
    if (nursery->owner != NULL) {
        Nursery **link = &nursery->owner->opened;
        while (*link != nursery) {
            link = &(*link)->outer;
        }
        *link = nursery->outer;
    } else {
        lock_take(&scheduler->roots_lock);
        law_queue_discard(&scheduler->roots, &nursery->root_link);
        lock_give(&scheduler->roots_lock);
    }
    if (nursery->own_purse) {
        purse_close(&scheduler->purse_set, nursery->purse);
        nursery->own_purse = false;
    }
}

void
nursery_close(Nursery *nursery, Ending *ending)
{
    lock_take(&nursery->lock);
    enter_terminal_state(nursery, ending);
    lock_give(&nursery->lock);
    leave_owner(nursery);
}

/* Close a task's nursery whose children have all ended already; that is the usual case after helping. Everything in one
 * step. Returns false, with nothing changed, if children are left. */
static bool
close_at_once(Nursery *nursery, Worker *worker, bool and_free, Ending *ending)
{
    int64_t counted = (int64_t)(nursery->spawned - nursery->ended) - NURSERY_BIAS;
    if (load_i64(&nursery->live, RELAXED) + counted != 0) {
        return false;
    }
    lock_take(&nursery->lock);
    if (load_i64(&nursery->live, ACQUIRE) + counted != 0) { /* another task has spawned */
        lock_give(&nursery->lock);
        return false;
    }
    if (nursery_state(nursery) == LAW_NURSERY_OPEN) {
        move(nursery, LAW_NURSERY_CLOSING);
    }
    enter_terminal_state(nursery, ending);
    leave_owner(nursery);
    if (and_free) {
        slab_cache_give(&worker->host->nurseries, nursery);
    }
    lock_give(&nursery->lock);
    return true;
}

int
nursery_free_if(Nursery *nursery, uint32_t generation)
{
    int error = ENGINE_INVALID;
    lock_take(&nursery->lock); /* a holder of a handle checks the generation under this lock */
    if (load_u32(&nursery->head.generation, RELAXED) == generation) {
        error = law_nursery_terminal(nursery_state(nursery)) ? ENGINE_OK : ENGINE_AGAIN;
    }
    if (error == ENGINE_OK) {
        slab_give(&nursery->scheduler->nurseries, nursery);
    }
    lock_give(&nursery->lock);
    return error;
}

void
nursery_free(Nursery *nursery, Worker *worker)
{
    LAW_RULE(law_nursery_terminal(nursery_state(nursery)), "CHILDREN-2");
    lock_take(&nursery->lock); /* as in nursery_free_if */
    if (worker != NULL) {
        slab_cache_give(&worker->host->nurseries, nursery);
    } else {
        slab_give(&nursery->scheduler->nurseries, nursery);
    }
    lock_give(&nursery->lock);
}

/* An outside thread sleeps, or drives a deterministic scheduler. If nothing can run any more, it cancels the nursery,
 * so that it ends. */
static void
wait_outside(Nursery *nursery)
{
    Scheduler *scheduler = nursery->scheduler;
    Parker parker;
    bool made = parker_init(&parker);
    LAW_RULE(made, "WAIT-3");
    if (!begin_wait(nursery, AWAIT_THREAD, NULL, &parker)) {
        while (load_u32(&nursery->drained, ACQUIRE) == 0) {
            if (!scheduler->options.deterministic) {
                parker_sleep(&parker, PARK_FOREVER);
            } else if (!scheduler_drive(scheduler, &nursery->drained, 1) &&
                       !nursery_cancel(nursery, LAW_CANCEL_SHUTDOWN)) {
                parker_sleep(&parker, PARK_FOREVER); /* only another thread can continue now */
            }
        }
    }
    parker_destroy(&parker);
}

void
task_deliver_cancel(Task *task)
{
    task->marks.cancel_delivered = true;
    for (Nursery *nursery = task->opened; nursery != NULL; nursery = nursery->outer) {
        nursery_cancel(nursery, LAW_CANCEL_PARENT);
    }
}

/* The task waits for the children that it could not run itself. `next` is the task to run meanwhile, or NULL. */
static void
wait_inside(Nursery *nursery, Task *caller, Task *next)
{
    bool alone = begin_wait(nursery, AWAIT_TASK, caller, NULL), paused = false;
    while (!alone && load_u32(&nursery->drained, ACQUIRE) == 0) {
        bool must_stop = task_must_stop(caller);
        if (must_stop) {
            task_deliver_cancel(caller);
        }
        paused |= task_report_if_paused(
            caller); /* at every turn: the wake of a pause may have been merged with another wake */
        task_rest_for(caller, must_stop ? REST_CANCEL_DELIVERED : REST_BLOCKED, next);
        next = NULL;
    }
    if (UNLIKELY(paused)) {
        task_wait_while_paused(caller);
    }
    if (next != NULL) {
        task_yield_to(caller, next);
    }
}

static inline void
await_inside(Nursery *nursery, Task *caller, bool and_free, Ending *ending)
{
    Task *next = nursery_help(nursery, caller);
    if (UNLIKELY(nursery->own_purse)) {
        credit_return(task_worker(caller)); /* the purse is closed soon */
    }
    if (next != NULL || !close_at_once(nursery, task_worker(caller), and_free, ending)) {
        wait_inside(nursery, caller, next);
        nursery_close(nursery, ending);
        if (and_free) {
            nursery_free(nursery, task_worker(caller));
        }
    }
    caller->has_awaited = true;
}

void
nursery_await(Nursery *nursery, Task *caller, Ending *ending)
{
    if (caller == NULL) {
        wait_outside(nursery);
        nursery_close(nursery, ending);
    } else {
        await_inside(nursery, caller, false, ending);
    }
}

void
nursery_await_and_free(Nursery *nursery, Task *caller, Ending *ending)
{
    if (caller == NULL) {
        nursery_await(nursery, NULL, ending);
        nursery_free(nursery, NULL);
    } else {
        await_inside(nursery, caller, true, ending);
    }
}
