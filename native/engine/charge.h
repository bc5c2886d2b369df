/* Charges: how the running task pays, what happens when it cannot, and how it is told to stop.
 *
 * Every call of a task that could wait comes through here first. It is answered with a code, never by an interruption, so
 * C code can give back what it holds; the code comes again at every such call until the task ends. A task that goes on
 * asking in vain is cut off after `cleanup_calls` of them: its frames are dropped. So neither a cancelled nor a penniless
 * task can keep its parent waiting, as long as it reaches such a point at all.
 *
 * CHARGE-1  what cannot be paid is not done, and nothing of it is charged
 * CHARGE-2  a turn is `yield_interval` ops: then the task goes to the back of the queue
 * CHARGE-3  short of ops, channel ops or syscalls a task ends as END_BUDGET; or, if its nursery says so and the pool is
 *     its own, holds until it is recharged; or, if the pool has a lender, holds until he has answered. Short of memory
 *     or spawns it is told, and goes on
 */
#pragma once

#include "engine/task.h"
#include "hints.h"
#include "law/budget.h"

struct Credit;

/* Charge the running task. ENGINE_OK, ENGINE_CANCELLED or ENGINE_BUDGET. May let others run first (CHARGE-2). */
int task_charge(Task *self, const LawCost *cost);

/* The running task has used up its ticks: `ops` were subtracted, and there were not so many. The same answers. */
int task_tick(Task *self, int64_t ops);

/* The slow half of task_check (scheduler.h): stands still, or is told to stop. */
int task_check_slow(Task *self);

/* The running task stops: what it has drawn and not used goes back. */
void task_return_drawn(Task *self);

/* The same for what the worker holds. */
void credit_return(struct Worker *worker);

/* What the worker holds of a purse; what it holds of another goes back. */
struct Credit *credit_for(struct Worker *worker, struct Purse *purse);

/* `next` runs instead of `self`, which was the running task: ops that are drawn go on to it if both pay from the same purse.
 * They need not go back then and be drawn again; and nobody but the one who runs holds any. */
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

/* Tell the running task to stop: notes that it was told, passes the request on to what it has opened, counts, and cuts it
 * off in the end. Answers `code`. */
int task_refuse(Task *self, int code);

/* Ask one task to stop. Any thread; `worker` is the caller's, or NULL. If the record is another task's by now, that one is
 * woken for nothing (TASK-3). */
void task_ask(struct Scheduler *scheduler, struct Worker *worker, Task *task, uint32_t generation);

/* Give a child more to spend, and queue it if it holds for that: moves money from those who lent it. ENGINE_OK, or
 * ENGINE_BUDGET if they do not have it, or it has no pool of its own. Any thread; `worker` is the caller's, or NULL. The
 * caller has made sure that the record is the child's (under its nursery's lock). */
int task_recharge(struct Worker *worker, Task *child, const LawBudget *amount);

/* The running task recharges itself under its CapBudget. ENGINE_OK, or ENGINE_BUDGET without one or beyond it. */
int task_recharge_self(Task *self, const LawBudget *amount);
