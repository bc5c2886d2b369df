/* Charges: how the running task pays, what happens if it cannot, and how it learns that it must stop. In Python:
 * law/ledger.py, and law/cleanup.py for the calls that a task may still make after it must stop (task_refuse).
 *
 * Every call of a task that could wait passes through here first. The answer is a code, never an interruption, so C
 * code can release what it holds. Every such call returns the code again until the task ends. A task that continues is
 * cut off after `cleanup_calls` such calls: its frames are dropped. So neither a cancelled task nor one without budget
 * can keep its parent waiting, as long as it makes such calls at all.
 *
 * CHARGE-1  an operation that cannot be paid is not done, and nothing of it is charged
 * CHARGE-2  a turn is `yield_interval` ops; then the task goes to the back of the queue
 * CHARGE-3  a task that is short of ops, channel ops or syscalls ends as END_BUDGET. If its nursery says `hold` and the
 *     pool is its own, it holds until it is recharged. If the pool has a lender, it holds until the lender has
 *     answered. A task that is short of memory or spawns gets ENGINE_BUDGET and goes on
 */
#pragma once

#include "engine/task.h"
#include "hints.h"
#include "law/budget.h"
#include "law/costs.h"

struct Credit;

/* Charge the running task. Returns ENGINE_OK, ENGINE_CANCELLED or ENGINE_BUDGET. Other tasks may run first (CHARGE-2).
 */
int task_charge(Task *self, const LawCost *cost);

/* The running task has used up its ticks: the caller subtracted `ops`, and there were fewer. Returns the same. */
int task_tick(Task *self, int64_t ops);

/* The slow half of task_check (scheduler.h): the task pauses, or gets the code that says it must stop. */
int task_check_slow(Task *self);

/* The running task stops running: the ops that it has drawn and not used go back. */
void task_return_drawn(Task *self);

/* The worker's credit goes back. */
void credit_return(struct Worker *worker);

/* The worker's credit of this purse. Credit of another purse goes back first. */
struct Credit *credit_for(struct Worker *worker, struct Purse *purse);

/* `next` runs instead of `self`, the running task. The drawn ops go to `next` if both pay from the same purse: then
 * they need not go back and be drawn again. So only a running task holds drawn ops. */
static inline void
task_pass_ticks(Task *self, Task *next)
{
    if (UNLIKELY(self->purse != next->purse)) {
        task_return_drawn(self);
        return;
    }
    next->ticks_left = self->ticks_left;
    next->has_drawn = self->ticks_left != 0;
    self->ticks_left = 0;
}

/* Refuse the running task a call with `code`. ENGINE_CANCELLED is noted and delivered to the nurseries that it opened.
 * Counts the refusals, and cuts the task off at the limit. Returns `code`. */
int task_refuse(Task *self, int code);

/* Ask one task to stop. Any thread; `worker` is the caller's, or NULL. If the record already belongs to another task,
 * that task may get a wake without a cause (TASK-3). */
void task_request_cancel(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* Give a child more budget, from the pools that lent it, and queue it if it holds. Returns ENGINE_OK, or ENGINE_BUDGET
 * if the pools do not have it or the child has no pool of its own. Any thread; `worker` is the caller's, or NULL. The
 * caller has made sure that the record is the child's (under its nursery's lock). */
int task_recharge(struct Worker *worker, Task *child, const LawBudget *amount);

/* The running task recharges itself under its CapBudget. Returns ENGINE_OK, or ENGINE_BUDGET without a CapBudget or
 * beyond it. */
int task_recharge_self(Task *self, const LawBudget *amount);
