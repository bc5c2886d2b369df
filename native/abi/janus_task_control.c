/* Control of tasks: why a task must stop, which child waits for budget, pausing and resuming. Contract:
 * include/janus_interop.h and include/janus_rt.h. */
#include "include/janus_interop.h"

#include "abi/handle.h"
#include "engine/task_requests.h"

int
janus_cancel_reason(void)
{
    Visit visit = visit_begin();
    int reason = JANUS_REASON_NONE;
    if (visit.task != NULL && task_cancel_requested(visit.task)) {
        reason = JANUS_REASON_USER;
    } else if (visit.task != NULL && nursery_cancelled(visit.task->nursery)) {
        reason = (int)nursery_reason(visit.task->nursery);
    }
    visit_end(&visit);
    return reason;
}

/* The first child in the list of one nursery that waits for budget, or NULL. The child goes to the end of the list,
 * so that the next calls return the other children first. */
static Task *
next_exhausted(Nursery *nursery, uint64_t *place)
{
    Task *found = NULL;
    lock_take(&nursery->lock);
    LawLink *link = law_queue_oldest(&nursery->have_waited);
    for (; link != NULL && found == NULL; link = law_queue_newer(&nursery->have_waited, link)) {
        Task *child = LAW_RECORD(link, Task, nursery_link);
        found = task_state(child) == LAW_STATE_EXHAUSTED ? child : NULL;
        if (found != NULL) {
            *place = (uint64_t)load_u32(&child->head.generation, RELAXED) << 32 | child->head.index;
            law_queue_remove(&nursery->have_waited, link);
            law_queue_append(&nursery->have_waited, link);
            break;
        }
    }
    lock_give(&nursery->lock);
    return found;
}

janus_task
janus_supervisor_poll_exhausted(void)
{
    if (!visit_pay_op()) {
        return 0;
    }
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    Task *found = NULL;
    uint64_t place = 0;
    for (; nursery != NULL && found == NULL; nursery = nursery->outer) {
        found = next_exhausted(nursery, &place);
    }
    janus_task task = found != NULL ? (janus_task)(uintptr_t)handle_from(HANDLE_TASK, place) : 0;
    visit_end(&visit);
    return task;
}

int
janus_task_pause(janus_task task)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Task *target = handle_find(&visit, HANDLE_TASK, (void *)(uintptr_t)task, &generation);
    int answer =
        target != NULL ? task_pause(&visit.runtime->scheduler, visit.worker, target, generation) : JANUS_INVALID;
    visit_end(&visit);
    return answer;
}

int
janus_task_resume(janus_task task)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Task *target = handle_find(&visit, HANDLE_TASK, (void *)(uintptr_t)task, &generation);
    int answer =
        target != NULL ? task_resume(&visit.runtime->scheduler, visit.worker, target, generation) : JANUS_INVALID;
    visit_end(&visit);
    return answer;
}
