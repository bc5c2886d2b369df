/* Workers: submitting, choosing and stealing. The contract is in worker.h. */
#include "engine/worker.h"

#include "engine/pick.h"
#include "engine/scheduler.h"
#include "hints.h"
#include "law/decide.h"

#define INJECTED_BATCH 16u /* tasks that a worker takes from the injector at once: some are left for other workers */

void
worker_submit(Scheduler *scheduler, Worker *worker, Task *task, WakeLane lane)
{
    Injector *shared = lane == TO_CANCEL  ? &scheduler->cancel_lane
                       : lane == TO_TIMED ? &scheduler->timed_lane
                                          : &scheduler->injector;
    bool shared_only = lane == TO_CANCEL || lane == TO_TIMED || worker == NULL;
    if (shared_only || !deque_push(lane == TO_JOIN ? &worker->fresh : &worker->started, task)) {
        inject_push(shared, &task->inject); /* WORKER-2 */
    }
    scheduler_notify(scheduler);
}

/* The same when the queue must grow, or cannot. */
static NOINLINE void
requeue_full(Worker *worker, Task *task)
{
    worker_submit(worker->scheduler, worker, task, TO_READY);
}

void
worker_requeue(Worker *worker, Task *task)
{
    if (!deque_push_within(&worker->started, task)) {
        requeue_full(worker, task);
    } else if (!worker->started.single_threaded) { /* otherwise no thief could take it */
        scheduler_notify(worker->scheduler);
    }
}

void
worker_queue_full(Worker *worker, Task *task)
{
    worker_submit(worker->scheduler, worker, task, TO_JOIN);
}

/* The oldest task of a shared lane. NULL also if another thread is taking. */
static Task *
take_one(Injector *lane)
{
    InjectLink *link;
    return inject_take(lane, &link, 1) == 1 ? task_of_link(link) : NULL;
}

/* Take some tasks from the injector: returns one to run, and puts the others into the worker's own queue. */
static Task *
take_injected(Worker *worker)
{
    InjectLink *links[INJECTED_BATCH];
    Scheduler *scheduler = worker->scheduler;
    size_t share = inject_length(&scheduler->injector) / scheduler->worker_count + 1;
    size_t room = deque_reserve(&worker->started, INJECTED_BATCH - 1) + 1; /* before anything is taken (WORKER-2) */
    share = share < INJECTED_BATCH ? share : INJECTED_BATCH;
    size_t taken = inject_take(&scheduler->injector, links, share < room ? share : room);
    if (taken == 0) {
        return NULL;
    }
    for (size_t i = 1; i < taken; i++) {
        bool kept = deque_push(&worker->started, task_of_link(links[i]));
        LAW_RULE(kept, "WORKER-2");
    }
    count_one(&worker->statistics.injected_takes);
    if (taken > 1) {
        scheduler_notify(scheduler);
    }
    return task_of_link(links[0]);
}

bool
worker_has_ready(const Worker *worker)
{
    return deque_length(&worker->fresh) != 0 || deque_length(&worker->started) != 0;
}

/* Take from the ready lane of one worker. */
static Task *
take_ready(Worker *worker)
{
    Task *task;
    bool injected = inject_length(&worker->scheduler->injector) != 0;
    if (injected && worker->turns % LAW_INJECTOR_INTERVAL == 0 && (task = take_injected(worker)) != NULL) {
        return task;
    }
    task = worker_take_own(worker);
    return task == NULL && injected ? take_injected(worker) : task;
}

/* Take a task when the cancel lane or the timed lane has some: the law chooses. */
static NOINLINE Task *
take_by_law(Worker *worker, bool cancel, bool due)
{
    Scheduler *scheduler = worker->scheduler;
    bool ready = worker_has_ready(worker) || inject_length(&scheduler->injector) != 0;
    LawLane lane =
        law_decide(cancel, due, ready, false, worker->cancel_streak, law_cancel_limit(false), worker->timed_streak);
    Task *task = NULL;
    if (lane == LAW_LANE_CANCEL || lane == LAW_LANE_CANCEL_FALLBACK) {
        task = take_one(&scheduler->cancel_lane);
    } else if (lane == LAW_LANE_TIMED) {
        task = take_one(&scheduler->timed_lane);
    }
    if (task == NULL) { /* the ready lane; or other workers were faster, and this worker takes what is left */
        lane = LAW_LANE_READY;
        task = take_ready(worker);
        task = task != NULL ? task : take_one(&scheduler->timed_lane);
        task = task != NULL ? task : take_one(&scheduler->cancel_lane);
    }
    law_streaks_after(lane, &worker->cancel_streak, &worker->timed_streak);
    return task;
}

Task *
worker_next_shared(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    bool cancel = inject_length(&scheduler->cancel_lane) != 0, due = inject_length(&scheduler->timed_lane) != 0;
    if (cancel || due) {
        return take_by_law(worker, cancel, due);
    }
    worker->cancel_streak = worker->timed_streak = 0;
    return take_ready(worker);
}

static size_t
load_of(void *context, uint32_t worker)
{
    Scheduler *scheduler = context;
    return deque_length(&scheduler->workers[worker].fresh) + deque_length(&scheduler->workers[worker].started);
}

/* Steal from one victim: fresh tasks first, because they are larger pieces of work. */
static Task *
steal_from(Worker *thief, Worker *victim)
{
    void *items[DEQUE_BATCH_MAX];
    void *item;
    size_t count;
    StealResult result;
    do {
        result = deque_steal_into(&victim->fresh, &thief->fresh, &item, &count);
    } while (result == STEAL_LOST);
    if (result != STEAL_DONE) {
        size_t room = deque_reserve(&thief->started, DEQUE_BATCH_MAX - 1) + 1;
        result = deque_steal_batch(&victim->started, items, room, &count);
        if (result != STEAL_DONE) {
            return NULL;
        }
        for (size_t i = 1; i < count; i++) {
            bool kept = deque_push(&thief->started, items[i]);
            LAW_RULE(kept, "WORKER-2");
        }
        item = items[0];
    }
    atomic_u64 *stolen = &thief->statistics.stolen;
    store_u64(stolen, load_u64(stolen, RELAXED) + count, RELAXED);
    return item;
}

Task *
worker_steal(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    if (scheduler->options.no_stealing || scheduler->worker_count == 1) {
        return NULL;
    }
    LawVictims victims = law_victims(scheduler->options.policy, worker->id, scheduler->worker_count, &worker->victims,
                                     &worker->next_victim, load_of, scheduler);
    uint32_t victim;
    while (law_next_victim(&victims, &victim)) {
        Task *task = steal_from(worker, &scheduler->workers[victim]);
        if (task != NULL) {
            count_one(&worker->statistics.steals);
            return task;
        }
        count_one(&worker->statistics.steals_failed);
    }
    return NULL;
}

/* One decision of one logical worker; adds a link to the chain. */
static Task *
decide_logical(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    bool cancel = inject_length(&scheduler->cancel_lane) != 0, due = inject_length(&scheduler->timed_lane) != 0;
    bool ready = worker_has_ready(worker) || inject_length(&scheduler->injector) != 0, stealable = false;
    for (uint32_t i = 0; i < scheduler->worker_count && !scheduler->options.no_stealing; i++) {
        stealable |= i != worker->id && load_of(scheduler, i) != 0;
    }
    uint32_t limit = law_cancel_limit(false), streak = worker->cancel_streak;
    LawLane lane = law_decide(cancel, due, ready, stealable, streak, limit, worker->timed_streak);
    Task *task = lane == LAW_LANE_TIMED   ? take_one(&scheduler->timed_lane)
                 : lane == LAW_LANE_READY ? take_ready(worker)
                 : lane == LAW_LANE_STEAL ? worker_steal(worker)
                 : lane == LAW_LANE_IDLE  ? NULL
                                          : take_one(&scheduler->cancel_lane);
    worker->turns += 1;
    if (task != NULL) { /* a thief may fail: the workers that it drew had no task */
        law_streaks_after(lane, &worker->cancel_streak, &worker->timed_streak);
        /* The number of the decision replaces the number of the poll. The latter belongs to the record, and the choice
         * of a record does not depend on the program alone. */
        scheduler->logical.chain = law_link(scheduler->logical.chain, task_id(task), task->nursery->id, (uint64_t)lane,
                                            worker->id, streak, limit, scheduler->logical.decisions);
        scheduler->logical.decisions += 1;
    }
    return task;
}

Task *
worker_next_logical(struct runner *runner)
{
    Worker *worker = runner->worker;
    Scheduler *scheduler = worker->scheduler;
    Logical *logical = &scheduler->logical;
    for (;;) {
        if (load_u32(logical->until, ACQUIRE) == logical->until_value) {
            return NULL;
        }
        uint64_t first = law_random_below(&logical->turns, scheduler->worker_count);
        for (uint32_t i = 0; i < scheduler->worker_count; i++) {
            Worker *turn = &scheduler->workers[(first + i) % scheduler->worker_count];
            Task *task = decide_logical(turn);
            if (task != NULL) {
                runner->worker = turn;
                return task;
            }
        }
        if (!timers_jump(&scheduler->timers, worker, &logical->now_ns)) {
            logical->stuck = true;
            return NULL;
        }
    }
}
