/* Lenders: see lender.h. */
#include "engine/lender.h"

#include "engine/scheduler.h"
#include "engine/task_leave.h"

typedef struct {
    LawLink link;
    Task *task;
} Holder;

void
lender_init(Lender *lender, void (*ask)(Lender *lender, const Task *holder, unsigned component, int64_t amount),
            void (*on_paused)(Lender *lender, const Task *task))
{
    *lender = (Lender){.ask = ask, .on_paused = on_paused};
    lock_init(&lender->lock);
    law_queue_init(&lender->holders);
}

void
lender_open(Lender *lender, Purse *purse)
{
    for (unsigned c = 0; c < LAW_COMPONENTS; c++) {
        LAW_RULE(purse->of[c] == &purse->own[c], "LENDER-1");
        purse->own[c].lender = lender;
    }
    lender->purse = purse;
}

void
lender_close(Lender *lender)
{
    lock_take(&lender->lock);
    for (unsigned c = 0; c < LAW_COMPONENTS; c++) {
        lender->spent[c] = load_i64(&lender->purse->own[c].spent, RELAXED);
    }
    lender->purse = NULL;
    lock_give(&lender->lock);
}

bool
lender_hold(Lender *lender, Task *self, unsigned component, int64_t amount)
{
    Holder holder = {.task = self};
    uint32_t bit = 1u << component;
    lock_take(&lender->lock);
    bool refused = (lender->refused & bit) != 0;
    bool enough = load_i64(&lender->purse->own[component].left, RELAXED) >= amount; /* more may have come meanwhile */
    bool first = !refused && !enough && (lender->asked & bit) == 0;
    if (!refused && !enough) {
        lender->asked |= bit;
        law_queue_append(&lender->holders, &holder.link);
    }
    lock_give(&lender->lock);
    if (refused || enough) {
        return !refused;
    }
    if (first) {
        lender->ask(lender, self, component, amount);
    }
    task_rest(self, REST_HELD);
    lock_take(&lender->lock);
    law_queue_remove(&lender->holders, &holder.link);
    lock_give(&lender->lock);
    return true;
}

/* LENDER-2. Under the lock. */
static void
wake_holders(Lender *lender, Scheduler *scheduler)
{
    LawLink *link = law_queue_oldest(&lender->holders);
    for (; link != NULL; link = law_queue_newer(&lender->holders, link)) {
        worker_wake(scheduler, NULL, LAW_RECORD(link, Holder, link)->task, TO_READY, true);
    }
}

int
lender_fill(Lender *lender, Scheduler *scheduler, const LawBudget *amount)
{
    int error = ENGINE_INVALID;
    lock_take(&lender->lock);
    if (lender->purse != NULL) {
        error = purse_fill(&scheduler->purse_set, lender->purse, amount) == LAW_PAID ? ENGINE_OK : ENGINE_BUDGET;
    }
    for (unsigned c = 0; c < LAW_COMPONENTS && error == ENGINE_OK; c++) {
        lender->asked &= amount->limit[c] > 0 ? ~(1u << c) : ~0u;
    }
    wake_holders(lender, scheduler);
    lock_give(&lender->lock);
    return error;
}

void
lender_refuse(Lender *lender, Scheduler *scheduler)
{
    lock_take(&lender->lock);
    lender->refused |= lender->asked;
    wake_holders(lender, scheduler);
    lock_give(&lender->lock);
}
