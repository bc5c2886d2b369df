/* The C interface: looking after others. Why a task is to stop, who waits for money, who is to stand still. */
#include "abi/abi.h"

#include "abi/current.h"
#include "engine/pause.h"
#include "include/janus_interop.h"

int
janus_cancel_reason(void)
{
    Visit visit = visit_begin();
    int reason = JANUS_REASON_NONE;
    if (visit.task != NULL && task_asked(visit.task)) {
        reason = JANUS_REASON_USER;
    } else if (visit.task != NULL && nursery_cancelled(visit.task->nursery)) {
        reason = (int)nursery_reason(visit.task->nursery);
    }
    visit_end(&visit);
    return reason;
}

/* The child that has waited longest for money in one nursery, or NULL. It goes to the end of the list, so that whoever asks
 * again hears of the others before it hears of this one again. */
static Task *
next_exhausted(Nursery *nursery, uint64_t *place)
{
    Task *found = NULL;
    lock_take(&nursery->lock);
    LawLink *link = law_queue_oldest(&nursery->waiting);
    for (; link != NULL && found == NULL; link = law_queue_newer(&nursery->waiting, link)) {
        Task *child = LAW_RECORD(link, Task, family);
        found = task_state(child) == LAW_STATE_EXHAUSTED ? child : NULL;
        if (found != NULL) {
            *place = (uint64_t)load_u32(&child->head.generation, RELAXED) << 32 | child->head.index;
            law_queue_remove(&nursery->waiting, link);
            law_queue_append(&nursery->waiting, link);
            break;
        }
    }
    lock_give(&nursery->lock);
    return found;
}

janus_task
janus_supervisor_poll_exhausted(void)
{
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
