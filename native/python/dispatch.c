/* Dispatch: the decision, and everything that makes a task runnable. After law/dispatch.py.
 *
 * `k_step` makes one decision; `k_wake` and `k_interrupt` are the only ways in which a waiting task becomes runnable, and
 * `k_ready` the only place where one is queued.
 *
 * K2  a task is QUEUED exactly when READY, and its wake state follows its state
 * K3  `current` is the one RUNNING task, or NULL
 */

#include "notes.h"

/* ---- doom */

int
k_doom(Kernel *k)
{
    PyObject *error = PyErr_GetRaisedException();
    if (k->doom == NULL) {
        k->doom = error;
    }
    else {
        Py_XDECREF(error);
    }
    return 0;
}

int
k_doomed(Kernel *k)
{
    if (k->doom == NULL) {
        return 0;
    }
    PyErr_SetRaisedException(Py_NewRef(k->doom));
    return -1;
}

/* ---- evidence: whoever listens hears of changes in the middle of them, and must not stop them there */

int
k_note(Kernel *k, const char *what, Task *task, PyObject *detail)
{
    PyObject *name = detail == NULL ? NULL : PyUnicode_InternFromString(what);
    if (name == NULL) {
        Py_XDECREF(detail);
        return k_doom(k);
    }
    PyObject *observer = Py_NewRef(k->observer); /* R3: it may take itself off */
    PyObject *args[] = {name, task ? (PyObject *)task : Py_None, detail};
    PyObject *result = PyObject_Vectorcall(observer, args, 3, NULL);
    Py_DECREF(observer);
    Py_DECREF(name);
    Py_DECREF(detail);
    Py_XDECREF(result);
    return result == NULL ? k_doom(k) : 0;
}

int
k_count(Kernel *k, const char *counter)
{
    PyObject *name = PyUnicode_InternFromString(counter), *old = NULL, *one = NULL, *sum = NULL;
    int failed = -1;
    if (name != NULL && (old = PyObject_GetItem(k->counters, name)) != NULL && (one = PyLong_FromLong(1)) != NULL
        && (sum = PyNumber_Add(old, one)) != NULL) {
        failed = PyObject_SetItem(k->counters, name, sum);
    }
    Py_XDECREF(name);
    Py_XDECREF(old);
    Py_XDECREF(one);
    Py_XDECREF(sum);
    return failed < 0 ? k_doom(k) : 0;
}

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
static int
enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns)
{
    Worker *home = task->worker >= 0 ? worker_at(k, task->worker) : k->at;
    if (task->cancel_pending || task->cut || task_cleanup_left(task) >= 0) {
        home = home ? home : worker_at(k, 0);
        put(k, home, &home->cancel, task, LAW_LANE_CANCEL, LAW_TAKE_PINNED);
    }
    else if (timed && home != NULL) {
        LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
        task->home = home->id;
        worker_push_timed(home, task, deadline_ns);
        task->lane = LAW_LANE_TIMED;
    }
    else if (task->pinned && home != NULL) {
        put(k, home, &home->pinned, task, LAW_LANE_READY, LAW_TAKE_PINNED);
    }
    else if ((home = k->at ? k->at : home) != NULL) {
        put(k, home, &home->stealable, task, LAW_LANE_READY, LAW_TAKE_STEALABLE);
    }
    else {
        LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
        task->lane = LAW_LANE_READY;
        task->queue = LAW_TAKE_INJECTOR;
        law_queue_append(&k->injector, &task->link);
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
    return enqueue(k, task, timed, deadline_ns);
}

/* ---- the decision */

/* Workers decide once each per round, in an order that the seed shuffles anew every round. */
static Worker *
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

/* Whether regions or obligations drain. A holder that has settled everything is forgotten on the way. -1: error. */
static int
draining(Kernel *k)
{
    if (k->draining_regions > 0) {
        return 1;
    }
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

static size_t
load_of(void *kernel, uint32_t worker)
{
    return worker_at(kernel, (int)worker)->stealable.length;
}

static Task *
take(Kernel *k, LawQueue *queue)
{
    Task *task = LAW_RECORD(law_queue_take_oldest(queue), Task, link);
    k->stealable -= task->lane == LAW_LANE_READY && task->queue == LAW_TAKE_STEALABLE;
    task->lane = LAW_LANE_IDLE;
    return task;
}

/* One search. NULL when every attempt found an empty victim. */
static Task *
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

static uint32_t
oldest_stamp(const LawQueue *queue)
{
    LawLink *link = law_queue_oldest(queue);
    return link == NULL ? 0 : LAW_RECORD(link, Task, link)->stamp;
}

/* The next ready task of a worker that has one (L2, L3). */
static Task *
take_ready(Kernel *k, Worker *worker)
{
    worker->ready_turns += 1;
    uint32_t pinned = oldest_stamp(&worker->pinned), stealable = oldest_stamp(&worker->stealable);
    switch (law_take_ready(worker->ready_turns, !law_queue_empty(&k->injector), !law_queue_empty(&worker->pinned),
                           !law_queue_empty(&worker->stealable), 0, (uint64_t)(pinned - stealable) >> 31 & 1u)) {
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
static int
dispatch(Kernel *k, Worker *worker, bool stealable, Task **found)
{
    int drains = draining(k);
    if (drains < 0) {
        return -1;
    }
    uint32_t limit = law_cancel_limit(drains > 0);
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

int
k_step(Kernel *k, Task **task)
{
    *task = NULL;
    if (k_doomed(k) < 0 || rule(k->current == NULL, "K3") < 0) {
        return -1;
    }
    if (k->runnable == 0) {
        return 0;
    }
    if (k->n_workers == 1) {
        return dispatch(k, worker_at(k, 0), false, task);
    }
    bool stealable = k->stealable > 0;
    for (int i = 0; i < 2 * k->n_workers - 1; i++) { /* the rest of this round and a whole one: nobody is left out */
        if (dispatch(k, next_worker(k), stealable, task) < 0) {
            return -1;
        }
        if (*task != NULL) {
            return 0;
        }
    }
    return 0;
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

/* ---- how a poll ends */

int
k_poll_over(Kernel *k, Task *task)
{
    if (rule(k->current == task, "K3") < 0) {
        return -1;
    }
    k->current = NULL;
    return 0;
}

/* The poll did not end in a wait: an answer that came meanwhile answers nothing. */
void
k_discard_answer(Task *task)
{
    task->raises = task->effect = 0;
    Py_CLEAR(task->answer);
}

int
k_yielded(Kernel *k, Task *task)
{
    if (k_poll_over(k, task) < 0) {
        return -1;
    }
    if (task->answer != NULL || task->effect) {
        k_discard_answer(task);
    }
    task->state = LAW_STATE_READY; /* RUNNING, by K3: the table allows it */
    task->wake = LAW_WAKE_QUEUED;
    task->since_ns = k->now_ns;
    return enqueue(k, task, false, 0);
}

/* The common end of the two kinds of waiting. */
static int
waits(Kernel *k, Task *task)
{
    task->since_ns = k->now_ns;
    if (NOTED(k, note_blocked(k, task)) < 0) {
        return -1;
    }
    if (law_end_poll(&task->wake)) {
        return k_end_wait(k, task) < 0 ? -1 : k_ready(k, task, false, 0);
    }
    return task->cancel_pending || task->cut ? k_interrupt(k, task) : 0;
}

int
k_blocked(Kernel *k, Task *task, PyObject *wait)
{
    if (k_poll_over(k, task) < 0 || task_move(task, LAW_STATE_BLOCKED) < 0) {
        return -1;
    }
    task->bare = 0;
    Py_XSETREF(task->pending, Py_NewRef(wait));
    return waits(k, task);
}

int
k_blocked_bare(Kernel *k, Task *task, Request *operation)
{
    if (k_poll_over(k, task) < 0 || task_move(task, LAW_STATE_BLOCKED) < 0) {
        return -1;
    }
    task->bare = 1;
    Py_XSETREF(task->pending, Py_NewRef((PyObject *)operation));
    return waits(k, task);
}

/* ---- becoming runnable */

/* Leave the queues of whatever the task waited for. A wait that was answered has left them already. Whoever ends a wait
 * queues the task next, whatever a wait that is written in Python makes of it. */
int
k_end_wait(Kernel *k, Task *task)
{
    PyObject *wait = task->pending;
    if (wait == NULL) {
        return 0;
    }
    bool bare = task->bare;
    int failed = 0;
    if (bare) {
        failed = operation_delist(k, wait, (PyObject *)task);
        task->bare = 0;
        task->pending = NULL;
    }
    else {
        task->pending = NULL;
        if (Py_TYPE(wait) == k->st->Entry) {
            failed = operation_delist(k, ((Entry *)wait)->operation, wait);
        }
        else {
            PyObject *none = PyObject_CallMethod(wait, "withdraw", "O", (PyObject *)k);
            failed = none == NULL ? -1 : 0;
            Py_XDECREF(none);
        }
    }
    Py_DECREF(wait);
    return failed < 0 ? k_doom(k) : 0;
}

int
k_wake(Kernel *k, Task *task, uint64_t generation, PyObject *value, PyObject *error, bool effect, LawNotice *notice)
{
    bool waits_now = task->state == LAW_STATE_BLOCKED && task->pending != NULL;
    *notice = law_notify(&task->wake, task->generation, generation, waits_now);
    if (NOTED(k, note_woken(k, task, generation, *notice)) < 0) {
        return -1;
    }
    switch (*notice) {
    case LAW_NOTICE_ENQUEUE:
    case LAW_NOTICE_NOTED:
        task->raises = error != NULL;
        task->effect = effect;
        Py_XSETREF(task->answer, Py_XNewRef(error ? error : value == Py_None ? NULL : value));
        if (*notice == LAW_NOTICE_ENQUEUE) {
            return k_end_wait(k, task) < 0 ? -1 : k_ready(k, task, false, 0);
        }
        return 0;
    case LAW_NOTICE_MERGED:
        return k_count(k, "wakes_merged");
    case LAW_NOTICE_STALE:
    default:
        return k_count(k, "stale_wake");
    }
}

int
k_answer(Kernel *k, PyObject *who, PyObject *value)
{
    LawNotice notice;
    if (is_task(who)) {
        return k_wake(k, (Task *)who, ((Task *)who)->generation, value, NULL, true, &notice);
    }
    if (Py_TYPE(who) == k->st->Entry) {
        return k_wake(k, ((Wait *)who)->task, ((Wait *)who)->generation, value, NULL, true, &notice);
    }
    PyObject *none = PyObject_CallMethod(who, "answer", "OO", (PyObject *)k, value ? value : Py_None);
    Py_XDECREF(none);
    return none == NULL ? k_doom(k) : 0; /* it left its list: nobody would answer it a second time */
}

int
k_refuse(Kernel *k, PyObject *who, PyObject *error)
{
    LawNotice notice;
    if (is_task(who)) {
        return k_wake(k, (Task *)who, ((Task *)who)->generation, NULL, error, false, &notice);
    }
    PyObject *none = PyObject_CallMethod(who, "refuse", "OO", (PyObject *)k, error);
    Py_XDECREF(none);
    return none == NULL ? k_doom(k) : 0;
}

/* Wake a BLOCKED task whose wait may be interrupted; tell the wait if it may not. */
static int
interrupt_wait(Kernel *k, Task *task)
{
    LawNotice notice;
    if (task->bare || Py_TYPE(task->pending) == k->st->Entry) {
        return k_wake(k, task, task->generation, NULL, NULL, false, &notice);
    }
    PyObject *wait = Py_NewRef(task->pending), *may = PyObject_GetAttrString(wait, "interruptible");
    int yes = may == NULL ? -1 : PyObject_IsTrue(may), failed = yes;
    Py_XDECREF(may);
    if (yes > 0) {
        failed = k_wake(k, task, task->generation, NULL, NULL, false, &notice);
    }
    else if (yes == 0) {
        PyObject *none = PyObject_CallMethod(wait, "interrupted", "O", (PyObject *)k);
        failed = none == NULL ? -1 : 0;
        Py_XDECREF(none);
    }
    Py_DECREF(wait);
    return failed < 0 ? -1 : 0;
}

int
k_unqueue(Kernel *k, Task *task)
{
    unqueue(k, task);
    return NOTED(k, note_task(k, NOTE_DEQUEUED, task));
}

int
k_unpause(Kernel *k, Task *task)
{
    bool woken = law_end_poll(&task->wake);
    return !woken ? 0 : k_end_wait(k, task) < 0 ? -1 : k_ready(k, task, false, 0);
}

/* Admission hears that a task which had to ask it is to stop as a whole. 1: only a block of it is, and it stands still. */
static int
stop_permit(Kernel *k, Task *task)
{
    if (!task->cut && cancel_deliverable(k->st, task) != (PyObject *)task) {
        return task->state == LAW_STATE_PAUSED || (task->state == LAW_STATE_BLOCKED && task->wake != LAW_WAKE_IDLE);
    }
    PyObject *permit = Py_NewRef(task->more->permit); /* R3 */
    PyObject *none = PyObject_CallMethod(permit, "stopped", "O", (PyObject *)k);
    Py_XDECREF(none);
    Py_DECREF(permit);
    return none == NULL ? -1 : 0;
}

int
k_interrupt(Kernel *k, Task *task)
{
    int stands = task->more != NULL && task->more->permit != NULL ? stop_permit(k, task) : 0;
    if (stands != 0) {
        return stands < 0 ? -1 : 0;
    }
    switch (task->state) {
    case LAW_STATE_BLOCKED:
        if (task->wake != LAW_WAKE_IDLE) { /* it was paused, and is to stop */
            return k_unpause(k, task) < 0 ? -1 : k_interrupt(k, task);
        }
        return interrupt_wait(k, task);
    case LAW_STATE_EXHAUSTED:
    case LAW_STATE_PENDING:
    case LAW_STATE_PAUSED:
        if (task->nursery->exhausted != NULL) {
            PyObject *id = PyLong_FromUnsignedLongLong(task->id);
            if (id == NULL || (PyDict_Contains(task->nursery->exhausted, id) > 0
                               && PyDict_DelItem(task->nursery->exhausted, id) < 0)) {
                Py_XDECREF(id);
                return -1;
            }
            Py_DECREF(id);
        }
        if (task->raises) {
            k_discard_answer(task);
        }
        return k_ready(k, task, false, 0);
    case LAW_STATE_READY:
        if (task->lane == LAW_LANE_CANCEL) {
            return 0;
        }
        return k_unqueue(k, task) < 0 ? -1 : enqueue(k, task, false, 0);
    default:
        return 0;
    }
}
