/* The end of a task: what it came to, who gets its money, who is told.
 *
 * An end can bring about the end of another: a task that panicked, or returned with a nursery open, ends when its last child
 * does (N6). That is a loop here, so a thousand generations need no deeper stack than one.
 *
 * The order matters. The failure is noted, and the siblings are cancelled, before the nursery counts the child as gone: so
 * whoever awaits learns of it. The count is the last thing that touches the nursery: whoever awaits may free it then.
 */
#include "engine/lender.h"
#include "engine/scheduler.h"

/* How the function ended, in the words of the outside. */
static EndKind
kind_of(const Task *task, enum fiber_state state)
{
    if (state == FIBER_NO_STACK) {
        return (EndKind)task->kind; /* it never ran; the loop has said why */
    }
    if (task->cut_off) {
        return task->told ? END_CANCELLED : END_BUDGET;
    }
    if (state == FIBER_PANICKED) {
        return END_PANICKED;
    }
    int64_t value = task->fiber.result;
    if (task->told && (value >= 0 || value == ENGINE_CANCELLED)) {
        return END_CANCELLED;
    }
    if (task->exceeded && (value >= 0 || value == ENGINE_BUDGET)) {
        return END_BUDGET;
    }
    return value < 0 ? END_FAILED : END_OK;
}

static void
count_end(WorkerStatistics *statistics, const Task *task)
{
    static const uint8_t at[] = {[END_FAILED] = 1, [END_CANCELLED] = 2, [END_PANICKED] = 3, [END_BUDGET] = 1};
    atomic_u64 *const counters[] = {NULL, &statistics->failed, &statistics->cancelled, &statistics->panicked};
    if (task->kind != END_OK) {
        count_one(counters[at[task->kind]]);
    }
    if (task->cut_off) {
        count_one(&statistics->cut_off);
    }
    if (task->fiber.state == FIBER_PANICKED) {
        count_one(&statistics->repaired);
    }
}

/* The nurseries that the task has left open: cancel and wait. False: somebody else will go on with this task (N6). */
static bool
drain_opened(Worker *worker, Task *task)
{
    Nursery *nursery;
    while ((nursery = task->opened) != NULL) {
        if (load_u32(&nursery->drained, ACQUIRE) == 0 && !nursery_abandon(nursery)) {
            return false;
        }
        Ending ending = nursery_close(nursery);
        nursery_free(nursery, worker);
        if (task->kind == END_OK && ending.kind != END_OK && ending.kind != END_CANCELLED) {
            task->kind = (uint8_t)ending.kind; /* a failure that nobody awaited is the task's own */
            task->fiber.result = ending.code;
        }
    }
    return true;
}

/* Take the task out of everything that leads to it. */
static void
detach(Scheduler *scheduler, Task *task)
{
    Nursery *nursery = task->nursery;
    task_settle(task);
    if (!task->linked && !task->own_purse) {
        return;
    }
    bool own_purse = task->own_purse;
    lock_take(&nursery->lock);
    if (task->linked) {
        law_queue_remove(&nursery->waiting, &task->family);
        task->linked = false;
    }
    task->own_purse = false; /* nobody recharges it any more */
    lock_give(&nursery->lock);
    if (own_purse) {
        Pool *ops = &task->purse->own[LAW_OPS];
        if (task->purse->of[LAW_OPS] == ops && ops->lender != NULL) {
            lender_close(ops->lender); /* U3 */
        }
        purse_close(&scheduler->books, task->purse);
    }
}

/* End one task. Answers another one whose end goes on because of that, or NULL. */
static Task *
end_one(Worker *worker, Task *task)
{
    Scheduler *scheduler = worker->scheduler;
    if (!drain_opened(worker, task)) {
        return NULL;
    }
    detach(scheduler, task);
    Nursery *nursery = task->nursery;
    Ending ending = {
        .kind = (EndKind)task->kind,
        .task_id = task->id,
        .code = task->kind == END_PANICKED ? task->fiber.code : task->fiber.result,
    };
    if (task->value_out != NULL) {
        *task->value_out = ending.code;
    }
    if (__builtin_expect(ending.kind != END_OK, 0)) {
        count_end(&worker->statistics, task);
        if (law_nursery_notes(ending_outcome(ending.kind), false)) {
            nursery_note(nursery, &ending);
        }
    }
    if (task->done != NULL) {
        task->done(task->done_arg, &ending);
    }
    task_word_end(task, ending_outcome(ending.kind));
    slab_cache_give(&worker->host->tasks, task);
    count_one(&worker->statistics.finished);
    return nursery_left(worker, nursery);
}

void
task_end(Worker *worker, Task *task, enum fiber_state state)
{
    worker->current = NULL;
    task->kind = (uint8_t)kind_of(task, state);
    while (task != NULL) {
        task = end_one(worker, task);
    }
}
