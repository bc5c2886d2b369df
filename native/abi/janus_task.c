/* The running task, its budget and its ticks. Contract: include/janus_rt.h and include/janus_interop.h. */
#include "include/janus_interop.h"

#include "abi/convert_budget.h"
#include "abi/handle.h"
#include "engine/charge.h"
#include "engine/task_leave.h"

/* ---- the running task */

bool
janus_cancelled(void)
{
    Task *self = visit_task();
    return self != NULL && task_must_stop(self);
}

int
janus_yield(void)
{
    Task *self = visit_task();
    if (self == NULL) {
        return JANUS_INVALID;
    }
    int refused = task_charge_op(self);
    if (refused != ENGINE_OK) {
        return refused;
    }
    task_yield(self);
    return task_check(self);
}

int
janus_sleep_ns(int64_t nanoseconds)
{
    Task *self = visit_task();
    if (self == NULL) {
        return JANUS_INVALID;
    }
    int64_t now_ns = scheduler_now_ns(task_worker(self)->scheduler);
    nanoseconds = nanoseconds < 0 ? 0 : nanoseconds;
    return task_sleep_until(self, nanoseconds > INT64_MAX - 1 - now_ns ? INT64_MAX - 1 : now_ns + nanoseconds);
}

int
janus_charge(const janus_budget *amount)
{
    Task *self = visit_task();
    if (self == NULL || amount == NULL) {
        return JANUS_INVALID;
    }
    LawBudget budget = budget_in(amount);
    LawCost cost = {.n = 0};
    if (budget.limit[LAW_OPS] == 0) {
        budget.limit[LAW_OPS] = LAW_OP_COSTS_OPS; /* every call that could wait costs at least this */
    }
    for (unsigned c = 0; c < LAW_COMPONENTS; c++) {
        if (budget.limit[c] != 0 && !law_cost_add(&cost, c, budget.limit[c])) {
            return JANUS_INVALID;
        }
    }
    return task_charge(self, &cost);
}

int
janus_panic(int32_t code)
{
    if (visit_task() == NULL) {
        return JANUS_INVALID;
    }
    (void)fiber_panic(code);
    return JANUS_INVALID;
}

uint64_t
janus_task_id(void)
{
    Task *self = visit_task();
    return self != NULL ? task_id(self) : 0;
}

const char *
janus_task_name(void)
{
    Task *self = visit_task();
    return self != NULL ? self->fiber.name : NULL;
}

int
janus_task_cancel(janus_task task)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Task *target = handle_find(&visit, HANDLE_TASK, (void *)(uintptr_t)task, &generation);
    if (target != NULL) {
        task_request_cancel(&visit.runtime->scheduler, visit.worker, target, generation);
    }
    visit_end(&visit);
    return target != NULL ? JANUS_OK : JANUS_INVALID;
}

/* ---- for compilers */

void *
janus_scheduler_create(janus_rt_config config)
{
    return janus_rt_init(config) == 0 ? janus_rt_get() : NULL;
}

void
janus_scheduler_shutdown(void *scheduler)
{
    if (scheduler != NULL && scheduler == janus_rt_get()) {
        janus_rt_shutdown();
    }
}

int
janus_scheduler_spawn(janus_task_fn fn, void *arg)
{
    return janus_nursery_spawn(fn, arg);
}

int
janus_scheduler_yield(void)
{
    return janus_yield() == JANUS_OK ? 0 : -1;
}

janus_budget
janus_budget_get_current(void)
{
    Visit visit = visit_begin();
    janus_budget out = {0};
    if (visit.runtime != NULL) {
        Purse *purse = visit.task != NULL ? visit.task->purse : &visit.runtime->scheduler.purse_set.root;
        LawBudget left = purse_left(purse);
        const Task *self = visit.task;
        if (self != NULL) { /* what the task has drawn and not used counts too */
            const Credit *credit = credit_for(visit.worker, self->purse);
            const int64_t drawn[LAW_COMPONENTS] = {[LAW_OPS] = self->ticks_left + credit->spawns,
                                                   [LAW_SPAWNS] = credit->spawns,
                                                   [LAW_CHANNEL_OPS] = credit->messages};
            for (int c = 0; c < LAW_COMPONENTS; c++) {
                left.limit[c] += left.limit[c] != LAW_OPEN ? drawn[c] : 0;
            }
        }
        out = (janus_budget){left.limit[LAW_OPS], left.limit[LAW_MEMORY], left.limit[LAW_SPAWNS],
                             left.limit[LAW_CHANNEL_OPS], left.limit[LAW_SYSCALLS]};
    }
    visit_end(&visit);
    return out;
}

int
janus_budget_recharge(janus_budget amount)
{
    Task *self = visit_task();
    LawBudget law = budget_in(&amount);
    if (self == NULL || !budget_valid(&amount)) {
        return -1;
    }
    bool minted = task_recharge_self(self, &law) == ENGINE_OK;
    return task_charge_op(self) == ENGINE_OK && minted ? 0 : -1; /* paid last: also out of what it gives */
}

/* Recharge a child, if it is in this nursery's list of children that have waited. Under the nursery's lock. */
static bool
recharge_in(const Visit *visit, Nursery *nursery, const Task *child, uint32_t generation, const LawBudget *amount)
{
    bool done = false;
    lock_take(&nursery->lock);
    LawLink *link = law_queue_oldest(&nursery->have_waited);
    for (; link != NULL && !done; link = law_queue_newer(&nursery->have_waited, link)) {
        Task *found = LAW_RECORD(link, Task, nursery_link);
        done = found == child && load_u32(&found->head.generation, RELAXED) == generation &&
               task_recharge(visit->worker, found, amount) == ENGINE_OK;
    }
    lock_give(&nursery->lock);
    return done;
}

int
janus_budget_recharge_child(janus_task task, janus_budget amount)
{
    Visit visit = visit_begin();
    uint32_t generation;
    LawBudget law = budget_in(&amount);
    bool done = false;
    Task *child = handle_find(&visit, HANDLE_TASK, (void *)(uintptr_t)task, &generation);
    if (child != NULL && budget_valid(&amount)) {
        for (Nursery *nursery = *current_opened(&visit); nursery != NULL && !done; nursery = nursery->outer) {
            done = recharge_in(&visit, nursery, child, generation, &law);
        }
    }
    visit_end(&visit);
    return done ? 0 : -1;
}

_Static_assert(sizeof(janus_ticks) == sizeof(int64_t), "a counter is one word of the task");

janus_ticks *
janus_ticks_get(void)
{
    Task *self = visit_task();
    return (janus_ticks *)(void *)(self != NULL ? &self->ticks_left : outside_ticks());
}

int
janus_ticks_spent(janus_ticks *ticks, int64_t ops)
{
    Task *self = visit_task();
    if (self == NULL || (void *)ticks != (void *)&self->ticks_left) {
        return JANUS_INVALID;
    }
    return task_tick(self, ops);
}
