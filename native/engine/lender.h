/* Lenders: money that comes from outside the engine, a portion at a time.
 *
 * A task of another scheduler has a budget in books of its own, on its own thread. When it has a function run here, the task
 * here pays from a purse that is filled from there: its lender. Whoever pays from such a pool and finds it short, the task
 * itself or one far below it, asks the lender and holds until he has given more or said no. What was spent he is told at
 * the end, exactly. He may also ask the task to stand still (pause.h), and is told when it does.
 *
 * LENDER-1  of all who find a component short one asks, and nobody asks again before he has answered
 * LENDER-2  whoever holds is in the lender's list, and is woken by every answer; a wake is a hint (TASK-3)
 * LENDER-3  a lender outlives his purse: it is closed, and what was spent is written down, before its task counts as ended
 *
 * Rejected: to lend all that there is at the beginning. The first of several tasks that share a purse would hold all of it
 * while the others starve. Also rejected: to pay afterwards. What cannot be paid must not have been done.
 */
#pragma once

#include "engine/budget.h"
#include "engine/task.h"
#include "law/lanes.h"

typedef struct Lender {
    Lock lock;                     /* taken before the books' */
    LawQueue holders;              /* LENDER-2: links on the stacks of those who hold */
    Purse *purse;                  /* NULL once it is closed */
    uint32_t asked;                /* components, as bits, that he was asked for and has not answered */
    uint32_t refused;              /* and those that he will not give more of */
    int64_t spent[LAW_COMPONENTS]; /* LENDER-3 */
    /* Called on a worker, by the task; both must be short, and must not wait. */
    void (*ask)(struct Lender *lender, const Task *holder, unsigned component, int64_t amount);
    void (*stands)(struct Lender *lender, const Task *task);
} Lender;

/* The lender of this very task's own purse, or NULL. */
static inline Lender *
lender_of(const Task *task)
{
    return task->marks.own_purse && task->purse->of[LAW_OPS] == &task->purse->own[LAW_OPS]
               ? task->purse->own[LAW_OPS].lender
               : NULL;
}

void lender_init(Lender *lender, void (*ask)(Lender *lender, const Task *holder, unsigned component, int64_t amount),
                 void (*stands)(Lender *lender, const Task *task));

/* The purse, all of whose pools are its own, is filled by this lender from here on. */
void lender_open(Lender *lender, Purse *purse);

/* The task that had the purse is over, and nobody pays from it any more (LENDER-3). */
void lender_close(Lender *lender);

/* The running task could not pay `amount`. True: look again. False: the lender gives nothing more. */
bool lender_hold(Lender *lender, Task *self, unsigned component, int64_t amount);

/* He gives: ENGINE_OK; ENGINE_INVALID if the purse is closed; ENGINE_BUDGET if the engine's own root has too little. */
int lender_fill(Lender *lender, struct Scheduler *scheduler, const LawBudget *amount);

/* He gives nothing more of what he was asked for. */
void lender_refuse(Lender *lender, struct Scheduler *scheduler);
