/* Requests to one task: see task_requests.h. */
#include "engine/task_requests.h"

#include "engine/lender.h"
#include "engine/scheduler.h"
#include "engine/task_leave.h"

bool
task_note_request(Task *task, uint32_t generation, uint32_t request)
{
    uint32_t noted = load_u32(&task->cancel, RELAXED);
    for (;;) {
        bool is_older = (int32_t)(noted - generation) < 0, is_pause = noted == generation + 1;
        if (noted == request) {
            return true;
        }
        if (!is_older && !(is_pause && request == generation)) {
            return false;
        }
        if (cas_u32(&task->cancel, &noted, request, ACQ_REL)) {
            return true;
        }
    }
}

int
task_pause(Scheduler *scheduler, Worker *worker, Task *task, uint32_t generation)
{
    if (task_note_request(task, generation, generation + 1)) {
        worker_wake(scheduler, worker, task, TO_READY, false);
        return ENGINE_OK;
    }
    return load_u32(&task->cancel, RELAXED) == generation ? ENGINE_CANCELLED : ENGINE_INVALID;
}

int
task_resume(Scheduler *scheduler, Worker *worker, Task *task, uint32_t generation)
{
    uint32_t asked = generation + 1;
    if (!cas_u32(&task->cancel, &asked, generation - 1, ACQ_REL)) {
        return ENGINE_INVALID;
    }
    worker_wake(scheduler, worker, task, TO_READY, true);
    return ENGINE_OK;
}

/* Reports each time: between two rests the task may have been resumed and paused again. */
static void
report_paused(Task *self)
{
    Lender *lender = lender_of(self);
    if (lender != NULL) {
        lender->on_paused(lender, self);
    }
}

void
task_wait_while_paused(Task *self)
{
    task_need_stack(self);
    while (task_paused(self) && !task_must_stop(self)) {
        report_paused(self);
        task_rest(self, REST_PAUSED);
    }
}

bool
task_report_if_paused(Task *self)
{
    bool paused = task_paused(self);
    if (paused) {
        report_paused(self);
    }
    return paused;
}
