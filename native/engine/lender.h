/* Lenders: budget that comes from outside the engine, a portion at a time.
 *
 * A task of another scheduler has its budget there, on that scheduler's thread. When that task calls a function that
 * runs here, the task here pays from a purse that the other scheduler fills: its lender. The tasks that it spawns may
 * share that purse. A task that finds a pool of the purse short asks the lender, and holds until the lender gives more
 * or refuses. At the end the lender gets the exact amount that was spent. A lender may also pause the
 * task (task_requests.h); `on_paused` is called when the task is paused.
 *
 * LENDER-1  of all tasks that find a component short one asks, and none asks again before the lender has answered
 * LENDER-2  every task that holds is in the lender's list, and every answer wakes it; a wake is a hint (TASK-3)
 * LENDER-3  a lender outlives its purse. The purse is closed, and `spent` is written, before the task counts as ended
 *
 * Rejected: to lend everything at the beginning. The first of several tasks that share a purse would hold all of it,
 * and the others would get nothing. Also rejected: to pay afterwards. An operation that cannot be paid must not have
 * been done.
 */
#pragma once

#include "engine/purse.h"
#include "engine/task.h"
#include "law/lanes.h"

typedef struct Lender {
    Lock lock;                     /* taken before the purse set's */
    LawQueue holders;              /* LENDER-2: the links are on the stacks of the tasks that hold */
    Purse *purse;                  /* NULL once it is closed */
    uint32_t asked;                /* components, as bits, that the lender was asked for and has not answered */
    uint32_t refused;              /* components that the lender will not give more of */
    int64_t spent[LAW_COMPONENTS]; /* LENDER-3 */
    /* Called on a worker, by the task. Both must be short and must not wait. */
    void (*ask)(struct Lender *lender, const Task *holder, unsigned component, int64_t amount);
    void (*on_paused)(struct Lender *lender, const Task *task);
} Lender;

/* The lender of this task's own purse, or NULL. */
static inline Lender *
lender_of(const Task *task)
{
    return task->marks.own_purse && task->purse->of[LAW_OPS] == &task->purse->own[LAW_OPS]
               ? task->purse->own[LAW_OPS].lender
               : NULL;
}

void lender_init(Lender *lender, void (*ask)(Lender *lender, const Task *holder, unsigned component, int64_t amount),
                 void (*on_paused)(Lender *lender, const Task *task));

/* From here on this lender fills the purse, which has its own pool for every component. */
void lender_open(Lender *lender, Purse *purse);

/* The task that had the purse has ended, and no task pays from it any more (LENDER-3). */
void lender_close(Lender *lender);

/* The running task could not pay `amount`. True: try again. False: the lender gives nothing more. */
bool lender_hold(Lender *lender, Task *self, unsigned component, int64_t amount);

/* The lender gives more. Returns ENGINE_OK; ENGINE_INVALID if the purse is closed; ENGINE_BUDGET if the engine's root
 * purse has too little. */
int lender_fill(Lender *lender, struct Scheduler *scheduler, const LawBudget *amount);

/* The lender gives no more of the components that it was asked for. */
void lender_refuse(Lender *lender, struct Scheduler *scheduler);
