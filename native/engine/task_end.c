/* The end of a task: its outcome, its refund, and the notifications.
 *
 * One end can cause another: a task that panicked, or returned with an open nursery, ends when its last child does
 * (CHILDREN-4). That is a loop here, so a thousand generations need no deeper stack than one.
 *
 * The order matters. The failure is noted, and the siblings are cancelled, before the nursery counts the child as
 * ended: so the waiter sees the failure. Counting is the last access to the nursery: after it the waiter may free the
 * nursery.
 */
#include "engine/task_end.h"

#include "engine/fast_paths.h"
#include "engine/lender.h"

/* How the task ended, for the C interface. */
static EndKind
kind_of(const Task *task, enum fiber_state state)
{
    if (state == FIBER_NO_STACK) {
        return (EndKind)task->marks.kind; /* it never ran; the loop has noted the reason */
    }
    if (task->marks.cut_off) {
        return task->marks.cancel_delivered ? END_CANCELLED : END_BUDGET;
    }
    if (state == FIBER_PANICKED) {
        return END_PANICKED;
    }
    int64_t value = task->fiber.result;
    if (task->marks.cancel_delivered && (value >= 0 || value == ENGINE_CANCELLED)) {
        return END_CANCELLED;
    }
    if (task->marks.exceeded && (value >= 0 || value == ENGINE_BUDGET)) {
        return END_BUDGET;
    }
    return value < 0 ? END_FAILED : END_OK;
}

static void
count_end(WorkerStatistics *statistics, const Task *task)
{
    static const uint8_t at[] = {[END_FAILED] = 1, [END_CANCELLED] = 2, [END_PANICKED] = 3, [END_BUDGET] = 1};
    atomic_u64 *const counters[] = {NULL, &statistics->failed, &statistics->cancelled, &statistics->panicked};
    if (task->marks.kind != END_OK) {
        count_one(counters[at[task->marks.kind]]);
    }
    if (task->marks.cut_off) {
        count_one(&statistics->cut_off);
    }
    if (task->fiber.state == FIBER_PANICKED) {
        count_one(&statistics->repaired);
    }
}

/* Cancel and drain the nurseries that the task has left open. Returns false if the end of the task must wait for a
 * child; the thread that ends the last child continues it (CHILDREN-4). */
static bool
drain_opened(Worker *worker, Task *task)
{
    Nursery *nursery;
    while ((nursery = task->opened) != NULL) {
        if (load_u32(&nursery->drained, ACQUIRE) == 0 && !nursery_abandon(nursery)) {
            return false;
        }
        Ending ending;
        nursery_close(nursery, &ending);
        nursery_free(nursery, worker);
        if (task->marks.kind == END_OK && ending.kind != END_OK && ending.kind != END_CANCELLED) {
            task->marks.kind = (uint8_t)ending.kind; /* a failure that was not awaited becomes the task's own */
            task->fiber.result = ending.code;
        }
    }
    return true;
}

/* Remove the task from everything that refers to it. */
static void
detach(Scheduler *scheduler, Task *task)
{
    Nursery *nursery = task->nursery;
    bool own_purse = task->marks.own_purse;
    Lender *lender = lender_of(task);
    lock_take(&nursery->lock);
    if (task->marks.linked) {
        law_queue_remove(&nursery->have_waited, &task->nursery_link);
    }
    task->marks.linked = task->marks.own_purse = false; /* it cannot be recharged any more */
    lock_give(&nursery->lock);
    if (own_purse) {
        if (lender != NULL) {
            lender_close(lender); /* LENDER-3 */
        }
        purse_close(&scheduler->purse_set, task->purse);
    }
}

/* Store the value, note a failure in the nursery, call the listener. */
static void
announce(Worker *worker, Task *task)
{
    Nursery *nursery = task->nursery;
    Ending ending = {
        .kind = (EndKind)task->marks.kind,
        .task_id = task_id(task),
        .code = task->marks.kind == END_PANICKED ? task->fiber.code : task->fiber.result,
    };
    if (task->marks.has_listener && task->value_out != NULL) {
        *task->value_out = ending.code;
    }
    if (ending.kind != END_OK) {
        count_end(&worker->statistics, task);
        if (law_nursery_notes(ending_outcome(ending.kind), false)) {
            nursery_note_failure(nursery, &ending);
        }
    }
    if (task->marks.has_listener && task->done != NULL) {
        task->done(task->done_arg, &ending);
    }
}

/* End one task, except for counting it in its nursery. Returns false if its end must wait for a child (CHILDREN-4). */
static bool
end_one(Worker *worker, Task *task)
{
    if (task->ticks_left != 0) {
        pool_return(task->purse->of[LAW_OPS], task->ticks_left);
    }
    if (task->opened != NULL) {
        credit_return(worker); /* it may belong to a purse that is closed below */
        if (!drain_opened(worker, task)) {
            return false;
        }
    }
    if (task->marks.all != 0) { /* it waited, failed, or has a listener */
        if (task->marks.own_purse) {
            credit_return(worker);
        }
        if (task->marks.linked || task->marks.own_purse) {
            detach(worker->scheduler, task);
        }
        announce(worker, task);
    }
    task_free(worker, task, ending_outcome((EndKind)task->marks.kind));
    return true;
}

void
task_end(Worker *worker, Task *task, enum fiber_state state)
{
    Nursery *nursery = task->nursery;
    credit_return(worker);
    bool ended = end_fast(worker, task, state) || task_end_above(worker, task, state);
    worker->current = NULL;
    while (ended && (task = nursery_child_ended(worker, nursery)) != NULL) { /* another task, whose end continues now */
        nursery = task->nursery;
        ended = end_one(worker, task);
    }
}

bool
task_end_above(Worker *worker, Task *task, enum fiber_state state)
{
    worker->current = NULL; /* what is called now does not run on behalf of the task */
    task->marks.kind = (uint8_t)kind_of(task, state);
    return end_one(worker, task);
}
