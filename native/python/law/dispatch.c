/* Dispatch: the lanes, and the choice of the task that runs next. After law/dispatch.py.
 *
 * `k_step` makes one decision. `k_enqueue` puts a task in its lane; dispatch_wake.c has the events that lead there.
 *
 * DISPATCH-2  `current` is the one RUNNING task, or NULL
 */

#include "python/law/dispatch.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_fast.h"
#include "python/law/task.h"
#include "python/law/worker.h"
#include "python/trace/events.h"

/* ---- lanes */

/* The queue in which a queued task is; not for the timed lane. */
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

/* Take a queued task out of its queue. */
static void
unqueue(Kernel *k, Task *task)
{
    if (task->lane == LAW_LANE_TIMED) {
        worker_remove_timed(worker_at(k, task->home), task);
    } else {
        law_queue_remove(queue_of(k, task), &task->link);
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

/* Cancelled, timed and pinned tasks go to their home worker. A stealable task goes to the worker on which it was
 * spawned or woken. If the host woke it, it goes to its home worker, or to the injector if it has none. */
int
k_enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns)
{
    Worker *home = k->at;
    bool asked = task->cancel_pending || task->cut || task_cleans_up(task);
    if (LIKELY(home != NULL && !asked && !timed && !task->pinned)) {
        lane_put(home, &home->stealable, task, LAW_LANE_READY, LAW_TAKE_STEALABLE);
    } else {
        home = task->worker >= 0 ? worker_at(k, task->worker) : home;
        if (asked) {
            home = home ? home : worker_at(k, 0);
            lane_put(home, &home->cancel, task, LAW_LANE_CANCEL, LAW_TAKE_PINNED);
        } else if (timed && home != NULL) {
            LAW_RULE(task->lane == LAW_LANE_IDLE, "LANES-1");
            task->home = home->id;
            worker_push_timed(home, task, deadline_ns);
            task->lane = LAW_LANE_TIMED;
        } else if (home != NULL) {
            LawTake which = task->pinned ? LAW_TAKE_PINNED : LAW_TAKE_STEALABLE;
            lane_put(home, task->pinned ? &home->pinned : &home->stealable, task, LAW_LANE_READY, which);
        } else {
            LAW_RULE(task->lane == LAW_LANE_IDLE, "LANES-1");
            task->lane = LAW_LANE_READY;
            task->queue = LAW_TAKE_INJECTOR;
            law_queue_append(&k->injector, &task->link);
        }
    }
    k->runnable += 1;
    return NOTED(k, note_enqueued(k, task, home, timed, deadline_ns));
}

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
    law_wake_queued(&task->wake);
    task->since_ns = k->now_ns;
    return k_enqueue(k, task, timed, deadline_ns);
}

/* ---- the decision */

/* The worker that decides next. Each worker decides once per round; the seed shuffles each round. */
NOINLINE static Worker *
next_worker(Kernel *k)
{
    int n = k->n_workers;
    if (n == 1) {
        return worker_at(k, 0);
    }
    if (k->place == n) {
        k->place = 0;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)law_random_below(&k->rounds, (uint64_t)i + 1), swapped = k->order[i];
            k->order[i] = k->order[j];
            k->order[j] = swapped;
        }
    }
    return worker_at(k, k->order[k->place++]);
}

/* Whether a task that cleans up holds obligations. Removes holders that have settled all their obligations. -1:
 * error. */
COLD static int
holders_drain(Kernel *k)
{
    while (PyDict_GET_SIZE(k->draining_holders) > 0) {
        PyObject *key = NULL, *value = NULL;
        Py_ssize_t at = 0;
        PyDict_Next(k->draining_holders, &at, &key, &value);
        TaskExtra *extra = ((Task *)key)->extra;
        if (extra != NULL && extra->obligations != NULL && PyDict_GET_SIZE(extra->obligations) > 0) {
            return 1;
        }
        if (PyDict_DelItem(k->draining_holders, key) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether nurseries or obligations drain. -1: error. */
static inline int
draining(Kernel *k)
{
    return k->draining_nurseries > 0 ? 1 : PyDict_GET_SIZE(k->draining_holders) > 0 ? holders_drain(k) : 0;
}

static size_t
load_of(void *kernel, uint32_t worker)
{
    return worker_at(kernel, (int)worker)->stealable.length;
}

static Task *
take(LawQueue *queue)
{
    Task *task = LAW_RECORD(law_queue_take_oldest(queue), Task, link);
    task->lane = LAW_LANE_IDLE;
    return task;
}

/* Take a task from another worker. NULL if no victim has a stealable task. */
NOINLINE static Task *
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
            return take(&other->stealable);
        }
        thief->steals_failed += 1;
    }
    return NULL;
}

/* Whether the oldest task of `one` came before the oldest task of `other`. Neither is empty. Stamps wrap around. */
static inline bool
came_before(const LawQueue *one, const LawQueue *other)
{
    uint32_t first = LAW_RECORD(law_queue_oldest(one), Task, link)->stamp;
    return (first - LAW_RECORD(law_queue_oldest(other), Task, link)->stamp) >> 31 != 0;
}

/* The next ready task of a worker that has one (LANES-2, LANES-3). */
static inline Task *
take_ready(Kernel *k, Worker *worker)
{
    uint64_t turns = (uint64_t)worker->dispatched[LAW_LANE_READY] + 1; /* including this turn, which `k_begin` counts */
    bool injector = !law_queue_empty(&k->injector), pinned = !law_queue_empty(&worker->pinned);
    bool stealable = !law_queue_empty(&worker->stealable);
    bool first = pinned && stealable && came_before(&worker->pinned, &worker->stealable);
    switch (law_take_ready(turns, injector, pinned, stealable, !first, first)) {
    case LAW_TAKE_INJECTOR:
        worker->injected += 1;
        return take(&k->injector);
    case LAW_TAKE_PINNED:
        return take(&worker->pinned);
    case LAW_TAKE_STEALABLE:
    default:
        return take(&worker->stealable);
    }
}

/* Let one worker decide, and start a poll if it found a task. */
NOINLINE static int
dispatch(Kernel *k, Worker *worker, bool stealable, uint32_t limit, Task **found)
{
    Task *due = worker->timed.count == 0 ? NULL : worker_earliest(worker, k->now_ns), *task = NULL;
    bool asked = !law_queue_empty(&worker->cancel);
    bool ready =
        !law_queue_empty(&worker->pinned) || !law_queue_empty(&worker->stealable) || !law_queue_empty(&k->injector);
    bool others = stealable && !ready && worker->steal_enabled;
    LawLane lane = law_decide(asked, due != NULL, ready, others, worker->cancel_streak, limit, worker->timed_streak);
    if (lane == LAW_LANE_STEAL && (task = steal(k, worker)) == NULL) {
        lane = law_decide(asked, due != NULL, ready, false, worker->cancel_streak, limit, worker->timed_streak);
    }
    switch (lane) {
    case LAW_LANE_CANCEL:
    case LAW_LANE_CANCEL_FALLBACK:
        task = take(&worker->cancel);
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
    return task == NULL ? 0 : k_begin(k, worker, task, lane, limit);
}

/* One decision, if there are several workers: they try in turn until one of them finds a task. */
NOINLINE static int
step_of_many(Kernel *k, uint32_t limit, Task **task)
{
    bool stealable = false;
    for (int i = 0; i < k->n_workers && !stealable; i++) {
        stealable = !law_queue_empty(&worker_at(k, i)->stealable);
    }
    for (int i = 0; i < 2 * k->n_workers - 1;
         i++) { /* the rest of this round and one whole round: every worker tries */
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
    if (k_check_deferred(k) < 0 || rule(k->current == NULL, "DISPATCH-2") < 0) {
        return -1;
    }
    if (k->runnable == 0) {
        return 0;
    }
    int drains = draining(k);
    if (drains < 0) {
        return -1;
    }
    uint32_t limit = law_cancel_limit(drains > 0);
    return k->only == NULL ? step_of_many(k, limit, task) : dispatch(k, k->only, false, limit, task);
}

int
k_step_over_slow(Kernel *k, Task *task)
{
    if (k_check_deferred(k) < 0 || rule(k->current == NULL, "DISPATCH-2") < 0) {
        return -1;
    }
    k->at = NULL;
    return NOTED(k, note_step_end(k, task));
}
