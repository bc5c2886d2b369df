/* Charges: see charge.h. */
#include "engine/charge.h"

#include "engine/lender.h"
#include "engine/pause.h"
#include "engine/scheduler.h"

int
task_refuse(Task *self, int code)
{
    if (code == ENGINE_CANCELLED) {
        self->told = true;
        for (Nursery *nursery = self->opened; nursery != NULL; nursery = nursery->outer) {
            nursery_cancel(nursery, LAW_CANCEL_PARENT);
        }
    } else {
        self->exceeded = true;
    }
    if (self->cleanup_left == 0) {
        self->cut_off = true;
        fiber_abandon(self->fiber.stack, FIBER_PANIC_CALLED, code);
    }
    self->cleanup_left -= 1;
    return code;
}

int
task_check(Task *self)
{
    if (__builtin_expect(task_paused(self), 0)) {
        task_stand_still(self);
    }
    if (__builtin_expect(task_cancelled(self), 0)) {
        return task_refuse(self, ENGINE_CANCELLED);
    }
    return __builtin_expect(self->exceeded, 0) ? task_refuse(self, ENGINE_BUDGET) : ENGINE_OK;
}

void
task_settle(Task *self)
{
    pool_return(self->purse->of[LAW_OPS], self->ticks_left);
    self->ticks_left = self->ticks_drawn = 0;
}

/* Pay `ops` out of the turn; at its end let others run and begin a new one. LAW_PAID, or LAW_OPS: there is not enough. */
static int
pay_ops(Task *self, int64_t ops)
{
    if (self->ticks_left >= ops) {
        self->ticks_left -= ops;
        return LAW_PAID;
    }
    if (self->ticks_drawn != 0) {
        task_yield(self); /* P2; settles, unless there was nobody to give way to */
    }
    Scheduler *scheduler = task_worker(self)->scheduler;
    Pool *pool = self->purse->of[LAW_OPS];
    int64_t turn = scheduler->options.yield_interval, lacking = ops - self->ticks_left;
    int64_t left = load_i64(&pool->left, RELAXED);
    if (left != LAW_OPEN && left / scheduler->worker_count < turn) {
        turn = left / scheduler->worker_count; /* tasks that run at the same time share what is left of a finite pool */
    }
    int64_t got = pool_draw(&scheduler->books, pool, lacking, lacking > turn ? lacking : turn);
    if (got == 0) {
        return LAW_OPS;
    }
    self->ticks_left += got - ops;
    self->ticks_drawn += got;
    return LAW_PAID;
}

/* Try once to pay a cost, whole or not at all (P1). */
static int
pay(Task *self, const LawCost *cost)
{
    LawCost others = {.n = 0};
    int64_t ops = 0;
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == LAW_OPS) {
            ops = cost->amount[i];
        } else {
            law_cost_add(&others, cost->component[i], cost->amount[i]);
        }
    }
    int short_of = pay_ops(self, ops);
    if (short_of == LAW_PAID && others.n != 0) {
        short_of = purse_pay(&task_worker(self)->scheduler->books, self->purse, &others);
        if (short_of != LAW_PAID) {
            self->ticks_left += ops;
        }
    }
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
        bool own = pool == &self->purse->own[short_of]; /* else nobody could recharge it */
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
    self->ticks_left += ops; /* it was not there */
    if (!law_cost_add(&cost, LAW_OPS, ops)) {
        return ENGINE_INVALID;
    }
    return task_charge(self, &cost);
}

void
task_ask(Scheduler *scheduler, Worker *worker, Task *task, uint32_t generation)
{
    if (!task_note_request(task, generation, generation)) {
        return; /* the record is another's by now */
    }
    fence_heavy(scheduler->idle.asymmetric); /* see `rest` in loop.c */
    worker_wake(scheduler, worker, task, TO_CANCEL, true);
}

int
task_recharge(Worker *worker, Task *child, const LawBudget *amount)
{
    Scheduler *scheduler = child->nursery->scheduler;
    if (!child->own_purse || purse_fill(&scheduler->books, child->purse, amount) != LAW_PAID) {
        return ENGINE_BUDGET;
    }
    worker_wake(scheduler, worker, child, TO_READY, true);
    return ENGINE_OK;
}

int
task_recharge_self(Task *self, const LawBudget *amount)
{
    Scheduler *scheduler = task_worker(self)->scheduler;
    if (!self->own_purse || purse_mint(&scheduler->books, self->purse, amount) != LAW_PAID) {
        return ENGINE_BUDGET;
    }
    self->exceeded = false;
    return ENGINE_OK;
}
