/* Dispatch: the lanes, and the decision whose task is next. After law/dispatch.py.
 *
 * `k_step` makes one decision; `k_ready` is the only place where a task is queued. How a task gets there is runnable.c.
 *
 * K3  `current` is the one RUNNING task, or NULL
 */

#include "notes.h"

/* ---- lanes */

static inline Worker *
worker_at(Kernel *k, int i)
{
    return (Worker *)PyTuple_GET_ITEM(k->workers, i);
}

/* The queue that a queued task is in; not for the timed lane. */
static LawQueue *
queue_of(Kernel *k, Task *task)
{
    if (task->lane == LAW_LANE_READY && task->queue == LAW_TAKE_INJECTOR) {
        return &k->injector;
    }
    Worker *worker = worker_at(k, task->home);
    if (task->lane == LAW_LANE_CANCEL) {
        return &worker->cancel;
    }
    return task->queue == LAW_TAKE_PINNED ? &worker->pinned : &worker->stealable;
}

/* Take a queued task out of wherever it is. */
static void
unqueue(Kernel *k, Task *task)
{
    if (task->lane == LAW_LANE_TIMED) {
        worker_remove_timed(worker_at(k, task->home), task);
    }
    else {
        law_queue_remove(queue_of(k, task), &task->link);
        k->stealable -= task->lane == LAW_LANE_READY && task->queue == LAW_TAKE_STEALABLE;
    }
    task->lane = LAW_LANE_IDLE;
    k->runnable -= 1;
}

int
k_unqueue(Kernel *k, Task *task)
{
    unqueue(k, task);
    return NOTED(k, note_task(k, NOTE_DEQUEUED, task));
}

void
k_forget(Kernel *k, Task *task)
{
    if (task->lane != LAW_LANE_IDLE && k->workers != NULL) {
        unqueue(k, task);
    }
}

/* Append a task to a queue of a worker (L1). */
static void
put(Kernel *k, Worker *home, LawQueue *queue, Task *task, LawLane lane, LawTake which)
{
    LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
    home->stamp += 1;
    task->stamp = home->stamp;
    task->home = home->id;
    task->lane = (uint8_t)lane;
    task->queue = (uint16_t)which & 3u;
    law_queue_append(queue, &task->link);
    k->stealable += lane == LAW_LANE_READY && which == LAW_TAKE_STEALABLE;
}

/* Put a READY task in its lane. Cancelled and timed tasks go to their home worker. A stealable task goes to the worker
 * on which it was spawned or woken; woken by the host, to its home; without a home, to the injector. */
int
k_enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns)
{
    Worker *home = k->at;
    bool asked = task->cancel_pending || task->cut || task_cleans_up(task);
    if (USUALLY(home != NULL && !asked && !timed && !task->pinned)) {
        put(k, home, &home->stealable, task, LAW_LANE_READY, LAW_TAKE_STEALABLE);
    }
    else {
        home = task->worker >= 0 ? worker_at(k, task->worker) : home;
        if (asked) {
            home = home ? home : worker_at(k, 0);
            put(k, home, &home->cancel, task, LAW_LANE_CANCEL, LAW_TAKE_PINNED);
        }
        else if (timed && home != NULL) {
            LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
            task->home = home->id;
            worker_push_timed(home, task, deadline_ns);
            task->lane = LAW_LANE_TIMED;
        }
        else if (home != NULL) {
            LawTake which = task->pinned ? LAW_TAKE_PINNED : LAW_TAKE_STEALABLE;
            put(k, home, task->pinned ? &home->pinned : &home->stealable, task, LAW_LANE_READY, which);
        }
        else {
            LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
            task->lane = LAW_LANE_READY;
            task->queue = LAW_TAKE_INJECTOR;
            law_queue_append(&k->injector, &task->link);
        }
    }
    k->runnable += 1;
    return NOTED(k, note_enqueued(k, task, home, timed, deadline_ns));
}

/* Room in the timed lane that the task would go to, so that queueing it cannot fail. */
int
k_reserve_timed(Kernel *k, Task *task)
{
    Worker *home = task->worker >= 0 ? worker_at(k, task->worker) : k->at;
    return home == NULL ? 0 : worker_reserve_timed(home);
}

int
k_ready(Kernel *k, Task *task, bool timed, int64_t deadline_ns)
{
    if ((timed && k_reserve_timed(k, task) < 0) || task_move(task, LAW_STATE_READY) < 0) {
        return -1;
    }
    task->wake = LAW_WAKE_QUEUED;
    task->since_ns = k->now_ns;
    return k_enqueue(k, task, timed, deadline_ns);
}

/* ---- the decision */

/* Workers decide once each per round, in an order that the seed shuffles anew every round. */
APART static Worker *
next_worker(Kernel *k)
{
    int n = k->n_workers;
    if (n == 1) {
        return worker_at(k, 0);
    }
    if (k->place == n) {
        k->place = 0;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)law_stream_below(&k->rounds, (uint64_t)i + 1), swapped = k->order[i];
            k->order[i] = k->order[j];
            k->order[j] = swapped;
        }
    }
    return worker_at(k, k->order[k->place++]);
}

/* Whether a task that cleans up holds obligations. One that has settled everything is forgotten on the way. -1: error. */
SELDOM static int
holders_drain(Kernel *k)
{
    while (PyDict_GET_SIZE(k->draining_holders) > 0) {
        PyObject *key = NULL, *value = NULL;
        Py_ssize_t at = 0;
        PyDict_Next(k->draining_holders, &at, &key, &value);
        TaskMore *more = ((Task *)key)->more;
        if (more != NULL && more->obligations != NULL && PyDict_GET_SIZE(more->obligations) > 0) {
            return 1;
        }
        if (PyDict_DelItem(k->draining_holders, key) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether regions or obligations drain. -1: error. */
static inline int
draining(Kernel *k)
{
    return k->draining_regions > 0 ? 1 : PyDict_GET_SIZE(k->draining_holders) > 0 ? holders_drain(k) : 0;
}

static size_t
load_of(void *kernel, uint32_t worker)
{
    return worker_at(kernel, (int)worker)->stealable.length;
}

enum { LINE_BYTES = 64, CROWD_MIN = 4096 }; /* fewer tasks stay in a near cache by themselves */

static inline void
fetch(const void *start, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES) {
        FETCH((const char *)start + at);
    }
}

/* In a crowd every record comes from far away. So while one task runs, what the next one needs is on its way: the
 * coroutine and the context of the next, whose own record was fetched a step ago, and the record of the one after. */
static inline void
look_ahead(const LawQueue *queue)
{
    if (queue->length >= CROWD_MIN) {
        const LawLink *next = queue->ring.newer;
        const Task *task = LAW_RECORD(next, Task, link);
        fetch(task->work, 4 * LINE_BYTES);
        fetch(task->context, LINE_BYTES);
        fetch(LAW_RECORD(next->newer, Task, link), sizeof(Task));
    }
}

static Task *
take(Kernel *k, LawQueue *queue)
{
    Task *task = LAW_RECORD(law_queue_take_oldest(queue), Task, link);
    look_ahead(queue);
    k->stealable -= task->lane == LAW_LANE_READY && task->queue == LAW_TAKE_STEALABLE;
    task->lane = LAW_LANE_IDLE;
    return task;
}

/* One search. NULL when every attempt found an empty victim. */
APART static Task *
steal(Kernel *k, Worker *thief)
{
    LawVictims victims = law_victims(k->policy, (uint32_t)thief->id, (uint32_t)k->n_workers, &thief->stream,
                                     &thief->next_victim, load_of, k);
    uint32_t victim;
    while (law_next_victim(&victims, &victim)) {
        Worker *other = worker_at(k, (int)victim);
        LAW_RULE(other != thief, "a worker never steals from itself");
        if (!law_queue_empty(&other->stealable)) {
            thief->steals += 1;
            other->stolen_from += 1;
            return take(k, &other->stealable);
        }
        thief->steals_failed += 1;
    }
    return NULL;
}

/* Whether the oldest task of the first queue came before that of the second; both hold one. Stamps wrap around. */
static inline bool
came_before(const LawQueue *one, const LawQueue *other)
{
    uint32_t first = LAW_RECORD(law_queue_oldest(one), Task, link)->stamp;
    return (first - LAW_RECORD(law_queue_oldest(other), Task, link)->stamp) >> 31 != 0;
}

/* The next ready task of a worker that has one (L2, L3). */
static inline Task *
take_ready(Kernel *k, Worker *worker)
{
    worker->ready_turns += 1;
    bool injector = !law_queue_empty(&k->injector), pinned = !law_queue_empty(&worker->pinned);
    bool stealable = !law_queue_empty(&worker->stealable);
    bool first = pinned && stealable && came_before(&worker->pinned, &worker->stealable);
    switch (law_take_ready(worker->ready_turns, injector, pinned, stealable, !first, first)) {
    case LAW_TAKE_INJECTOR:
        worker->injected += 1;
        return take(k, &k->injector);
    case LAW_TAKE_PINNED:
        return take(k, &worker->pinned);
    case LAW_TAKE_STEALABLE:
    default:
        return take(k, &worker->stealable);
    }
}

/* Record the decision in the chain and start the poll. */
static int
begin(Kernel *k, Worker *worker, Task *task, LawLane lane, uint32_t limit)
{
    k->runnable -= 1;
    law_streaks_after(lane, &worker->cancel_streak, &worker->timed_streak);
    LAW_RULE(worker->cancel_streak <= limit, "D1");
    worker->dispatched[lane] += 1;
    k->decisions += 1;
    law_begin_poll(&task->wake, &task->generation);
    LAW_RULE(task->state == LAW_STATE_READY, "L1"); /* and from there it may run: see the table */
    task->state = LAW_STATE_RUNNING;
    task->worker = (int16_t)worker->id;
    task->turn_left = k->yield_interval > INT32_MAX ? INT32_MAX : (int32_t)k->yield_interval;
    k->current = task;
    k->at = worker;
    k->chain = law_link(k->chain, task->id, task->nursery->id, lane, (uint64_t)worker->id, worker->cancel_streak, limit,
                        task->generation);
    return NOTED(k, note_decision(k, task, lane, worker, limit));
}

/* Let one worker decide, and start a poll if it found a task. */
APART static int
dispatch(Kernel *k, Worker *worker, bool stealable, uint32_t limit, Task **found)
{
    Task *due = worker->n_timed == 0 ? NULL : worker_earliest(worker, k->now_ns), *task = NULL;
    bool asked = !law_queue_empty(&worker->cancel);
    bool ready = !law_queue_empty(&worker->pinned) || !law_queue_empty(&worker->stealable)
                 || !law_queue_empty(&k->injector);
    bool others = stealable && !ready && worker->steal_enabled;
    LawLane lane =
        law_decide(asked, due != NULL, ready, others, worker->cancel_streak, limit, worker->timed_streak);
    if (lane == LAW_LANE_STEAL && (task = steal(k, worker)) == NULL) {
        lane = law_decide(asked, due != NULL, ready, false, worker->cancel_streak, limit, worker->timed_streak);
    }
    switch (lane) {
    case LAW_LANE_CANCEL:
    case LAW_LANE_CANCEL_FALLBACK:
        task = take(k, &worker->cancel);
        break;
    case LAW_LANE_TIMED:
        task = due;
        worker_remove_timed(worker, task);
        task->lane = LAW_LANE_IDLE;
        break;
    case LAW_LANE_READY:
        task = take_ready(k, worker);
        break;
    case LAW_LANE_STEAL:
    case LAW_LANE_IDLE:
        break;
    }
    *found = task;
    return task == NULL ? 0 : begin(k, worker, task, lane, limit);
}

/* The same where all that is runnable is ready, and in one queue of the only worker: so it is nearly always. */
static inline int
dispatch_ready(Kernel *k, Worker *worker, uint32_t limit, Task **found)
{
    LawLane lane = law_decide(false, false, true, false, worker->cancel_streak, limit, worker->timed_streak);
    worker->ready_turns += 1;
    *found = take(k, &worker->stealable);
    return begin(k, worker, *found, lane, limit);
}

/* One decision of several workers: of the first whose turn it is and who finds a task. */
APART static int
step_of_many(Kernel *k, uint32_t limit, Task **task)
{
    bool stealable = k->stealable > 0;
    for (int i = 0; i < 2 * k->n_workers - 1; i++) { /* the rest of this round and a whole one: nobody is left out */
        if (dispatch(k, next_worker(k), stealable, limit, task) < 0) {
            return -1;
        }
        if (*task != NULL) {
            return 0;
        }
    }
    return 0;
}

int
k_step(Kernel *k, Task **task)
{
    *task = NULL;
    if (k_doomed(k) < 0 || rule(k->current == NULL, "K3") < 0) {
        return -1;
    }
    int drains = draining(k);
    if (k->runnable == 0 || drains < 0) {
        return drains < 0 ? -1 : 0;
    }
    uint32_t limit = law_cancel_limit(drains > 0);
    if (!USUALLY(k->n_workers == 1)) {
        return step_of_many(k, limit, task);
    }
    Worker *worker = worker_at(k, 0);
    bool ready = k->runnable == (int64_t)worker->stealable.length;
    return USUALLY(ready) ? dispatch_ready(k, worker, limit, task) : dispatch(k, worker, false, limit, task);
}

int
k_step_over(Kernel *k, Task *task)
{
    if (k_doomed(k) < 0 || rule(k->current == NULL, "K3") < 0) {
        return -1;
    }
    k->at = NULL;
    return NOTED(k, note_step_end(k, task));
}
