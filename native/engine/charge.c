/* Charges: see charge.h. */
#include "engine/charge.h"

#include "engine/lender.h"
#include "engine/scheduler.h"
#include "engine/task_leave.h"
#include "engine/task_requests.h"
#include "hints.h"

#define MESSAGES_DRAWN INT64_C(64) /* channel ops drawn at once: one access to the pool instead of 64 */

int
task_refuse(Task *self, int code)
{
    if (!self->marks.cancel_delivered && !self->marks.exceeded) {
        self->cleanup_left = self->nursery->scheduler->options.cleanup_calls;
    }
    if (code == ENGINE_CANCELLED) {
        task_deliver_cancel(self);
    } else {
        self->marks.exceeded = true;
    }
    if (self->cleanup_left == 0) {
        self->marks.cut_off = true;
        fiber_abandon(self->fiber.stack, FIBER_PANIC_CALLED, code);
    }
    self->cleanup_left -= 1;
    return code;
}

int
task_check_slow(Task *self)
{
    if (UNLIKELY(task_paused(self))) {
        task_wait_while_paused(self);
    }
    if (UNLIKELY(task_must_stop(self))) {
        return task_refuse(self, ENGINE_CANCELLED);
    }
    return UNLIKELY(self->marks.exceeded) ? task_refuse(self, ENGINE_BUDGET) : ENGINE_OK;
}

void
task_return_drawn(Task *self)
{
    pool_return(self->purse->of[LAW_OPS], self->ticks_left);
    self->ticks_left = 0;
    self->has_drawn = false;
    credit_return(task_worker(self));
}

void
credit_return(Worker *worker)
{
    Credit *credit = &worker->credit;
    if ((credit->spawns | credit->messages) != 0) {
        pool_return(credit->purse->of[LAW_OPS], credit->spawns);
        pool_return(credit->purse->of[LAW_SPAWNS], credit->spawns);
        pool_return(credit->purse->of[LAW_CHANNEL_OPS], credit->messages);
    }
    *credit = (Credit){0};
}

Credit *
credit_for(Worker *worker, Purse *purse)
{
    if (worker->credit.purse != purse) {
        credit_return(worker);
        worker->credit.purse = purse;
    }
    return &worker->credit;
}

/* Draw at least `lacking` from a pool, and up to `most` if that is at most a worker's share of what is left: tasks that
 * run at the same time share a finite pool. Returns how much, or 0. */
static int64_t
draw(Worker *worker, Pool *pool, int64_t lacking, int64_t most)
{
    Scheduler *scheduler = worker->scheduler;
    int64_t left = load_i64(&pool->left, RELAXED);
    if (left != LAW_OPEN && left / scheduler->worker_count < most) {
        most = left / scheduler->worker_count;
    }
    return pool_draw(&scheduler->purse_set, pool, lacking, lacking > most ? lacking : most);
}

/* Pay `ops` from the turn; at the end of the turn let other tasks run and begin a new turn. Returns LAW_PAID, or
 * LAW_OPS: there is not enough. */
static int
pay_ops(Task *self, int64_t ops)
{
    if (self->ticks_left < ops && self->has_drawn) {
        task_yield(self); /* CHARGE-2; returns what was drawn, unless no other task could run */
    }
    if (self->ticks_left >= ops) {
        self->ticks_left -= ops;
        return LAW_PAID;
    }
    Worker *worker = task_worker(self);
    int64_t lacking = ops - self->ticks_left;
    int64_t got = draw(worker, self->purse->of[LAW_OPS], lacking, worker->scheduler->options.yield_interval);
    if (got == 0) { /* the worker's credit may be what is missing */
        credit_return(worker);
        got = draw(worker, self->purse->of[LAW_OPS], lacking, lacking);
    }
    if (got == 0) {
        return LAW_OPS;
    }
    self->ticks_left += got - ops;
    self->has_drawn = true;
    return LAW_PAID;
}

/* Pay channel ops, which are drawn in advance like ops: a message is too short for an access to the pool. Returns
 * LAW_PAID, or LAW_CHANNEL_OPS. */
static int
pay_messages(Task *self, int64_t count)
{
    Credit *credit = credit_for(task_worker(self), self->purse);
    if (credit->messages < count) {
        int64_t lacking = count - credit->messages;
        int64_t got = draw(task_worker(self), self->purse->of[LAW_CHANNEL_OPS], lacking, MESSAGES_DRAWN);
        if (got == 0) {
            return LAW_CHANNEL_OPS;
        }
        credit->messages = (int32_t)(got - lacking); /* less than was drawn at once */
        return LAW_PAID;
    }
    credit->messages -= (int32_t)count;
    return LAW_PAID;
}

/* Try once to pay a cost, whole or not at all (CHARGE-1). */
static int
pay(Task *self, const LawCost *cost)
{
    LawCost others = {.n = 0};
    int64_t ops = 0, messages = 0;
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == LAW_OPS) {
            ops = cost->amount[i];
        } else if (cost->component[i] == LAW_CHANNEL_OPS) {
            messages = cost->amount[i];
        } else {
            law_cost_add(&others, cost->component[i], cost->amount[i]);
        }
    }
    int short_of = pay_ops(self, ops);
    if (short_of != LAW_PAID) {
        return short_of;
    }
    short_of = messages == 0 ? LAW_PAID : pay_messages(self, messages);
    if (short_of == LAW_PAID && others.n != 0) {
        short_of = purse_pay(&task_worker(self)->scheduler->purse_set, self->purse, &others);
        credit_for(task_worker(self), self->purse)->messages += short_of == LAW_PAID ? 0 : (int32_t)messages;
    }
    self->ticks_left += short_of == LAW_PAID ? 0 : ops;
    return short_of;
}

int
task_charge(Task *self, const LawCost *cost)
{
    task_need_stack(self);
    for (;;) {
        int refused = task_check(self);
        if (refused != ENGINE_OK) {
            return refused;
        }
        int short_of = pay(self, cost);
        if (short_of == LAW_PAID) {
            return ENGINE_OK;
        }
        count_one(&task_worker(self)->statistics.exhausted);
        if (short_of == LAW_MEMORY || short_of == LAW_SPAWNS) {
            return ENGINE_BUDGET;
        }
        Pool *pool = self->purse->of[short_of];
        if (pool->lender != NULL) {
            if (!lender_hold(pool->lender, self, (unsigned)short_of, law_cost_of(cost, (unsigned)short_of))) {
                return task_refuse(self, ENGINE_BUDGET);
            }
            continue;
        }
        bool own = pool == &self->purse->own[short_of]; /* otherwise the task could not be recharged */
        if (!self->nursery->hold || !own) {
            return task_refuse(self, ENGINE_BUDGET);
        }
        task_rest(self, REST_HELD);
    }
}

int
task_tick(Task *self, int64_t ops)
{
    LawCost cost = {.n = 0};
    self->ticks_left += ops; /* the caller subtracted them, but they were not there */
    if (!law_cost_add(&cost, LAW_OPS, ops)) {
        return ENGINE_INVALID;
    }
    return task_charge(self, &cost);
}

void
task_request_cancel(Scheduler *scheduler, Worker *worker, Task *task, uint32_t generation)
{
    if (!task_note_request(task, generation, generation)) {
        return; /* the record belongs to another task by now */
    }
    add_u32(&scheduler->requests, 1, RELEASE);
    worker_wake(scheduler, worker, task, TO_CANCEL, true);
}

int
task_recharge(Worker *worker, Task *child, const LawBudget *amount)
{
    Scheduler *scheduler = child->nursery->scheduler;
    if (!child->marks.own_purse || purse_fill(&scheduler->purse_set, child->purse, amount) != LAW_PAID) {
        return ENGINE_BUDGET;
    }
    worker_wake(scheduler, worker, child, TO_READY, true);
    return ENGINE_OK;
}

int
task_recharge_self(Task *self, const LawBudget *amount)
{
    Scheduler *scheduler = task_worker(self)->scheduler;
    if (!self->marks.own_purse || purse_mint(&scheduler->purse_set, self->purse, amount) != LAW_PAID) {
        return ENGINE_BUDGET;
    }
    self->marks.exceeded = false;
    return ENGINE_OK;
}
