/* One logical worker: its lanes, its streaks, its random stream. After `Worker` and `TimedLane` of law/lanes.py.
 *
 * The queues are rings through their tasks (law/lanes.h), and dispatch.c puts tasks in and takes them out. The timed
 * lane is here: a heap of entries, ordered by (deadline, task id, generation). While a task is in it, `task->stamp`
 * is its place in the heap, so that leaving from the middle costs no search. As with the queues, whoever calls keeps
 * `task->lane`.
 *
 * HEAP-1 and HEAP-2 of law/timers.h hold for the timed lane, with two children per slot and `task->stamp` as the place.
 *
 * A lane borrows its tasks (RECORD-1 of records.h). Python sees the lanes through views, which cannot change them.
 */

#include "python/law/worker.h"
#include "python/law/queue_view.h"
#include "python/module/seam.h"

enum { ROOM_MIN = 16 };

/* ---- the timed lane */

/* The order of HEAP-1. */
static bool
earlier(const TimedEntry *a, const TimedEntry *b)
{
    if (a->deadline_ns != b->deadline_ns) {
        return a->deadline_ns < b->deadline_ns;
    }
    return a->id != b->id ? a->id < b->id : a->generation < b->generation;
}

/* Put an entry at a place, and tell its task (HEAP-2). */
static void
settle(Worker *worker, Py_ssize_t place, TimedEntry entry)
{
    worker->timed[place] = entry;
    entry.task->stamp = (uint32_t)place;
}

/* Let an entry that belongs at `place` or above rise to where HEAP-1 holds. */
static void
rise(Worker *worker, Py_ssize_t place, TimedEntry entry)
{
    while (place > 0) {
        Py_ssize_t parent = (place - 1) / 2;
        if (!earlier(&entry, &worker->timed[parent])) {
            break;
        }
        settle(worker, place, worker->timed[parent]);
        place = parent;
    }
    settle(worker, place, entry);
}

/* Let an entry that belongs at `place` or below sink to where HEAP-1 holds. */
static void
sink(Worker *worker, Py_ssize_t place, TimedEntry entry)
{
    for (;;) {
        Py_ssize_t child = 2 * place + 1;
        if (child >= worker->n_timed) {
            break;
        }
        if (child + 1 < worker->n_timed && earlier(&worker->timed[child + 1], &worker->timed[child])) {
            child += 1;
        }
        if (!earlier(&worker->timed[child], &entry)) {
            break;
        }
        settle(worker, place, worker->timed[child]);
        place = child;
    }
    settle(worker, place, entry);
}

/* Make room for one more entry in the timed lane. 0, or -1 with MemoryError set. */
int
worker_reserve_timed(Worker *worker)
{
    if (worker->n_timed < worker->room_timed) {
        return 0;
    }
    Py_ssize_t room = worker->room_timed < ROOM_MIN ? ROOM_MIN : 2 * worker->room_timed;
    TimedEntry *timed = NULL;
    if ((uint64_t)room <= UINT32_MAX) { /* a place must fit a stamp */
        timed = PyMem_Realloc(worker->timed, (size_t)room * sizeof *timed);
    }
    if (timed == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    worker->timed = timed;
    worker->room_timed = room;
    return 0;
}

/* Enter a task that is in no lane. worker_reserve_timed made room. Cannot fail. */
void
worker_push_timed(Worker *worker, Task *task, int64_t deadline_ns)
{
    LAW_RULE(worker->n_timed < worker->room_timed, "HEAP-2");
    worker->n_timed += 1;
    rise(worker, worker->n_timed - 1, (TimedEntry){deadline_ns, task->id, task->generation, task});
}

/* Whether a task is in the timed lane of this worker. */
bool
worker_in_timed(const Worker *worker, const Task *task)
{
    return (Py_ssize_t)task->stamp < worker->n_timed && worker->timed[task->stamp].task == task;
}

/* Take a task out of the timed lane, where it must be; the last entry fills the gap. Cannot fail. */
void
worker_remove_timed(Worker *worker, Task *task)
{
    LAW_RULE(worker_in_timed(worker, task), "HEAP-2");
    Py_ssize_t place = (Py_ssize_t)task->stamp;
    worker->n_timed -= 1;
    if (place < worker->n_timed) {
        TimedEntry last = worker->timed[worker->n_timed];
        if (place > 0 && earlier(&last, &worker->timed[(place - 1) / 2])) {
            rise(worker, place, last);
        } else {
            sink(worker, place, last);
        }
    }
}

/* The earliest task of the timed lane, borrowed and left where it is, if it may run; else NULL. */
Task *
worker_earliest(const Worker *worker, int64_t now_ns)
{
    return worker->n_timed > 0 && worker->timed[0].deadline_ns <= now_ns ? worker->timed[0].task : NULL;
}

/* For qsort. No two entries of a lane are equal. */
static int
by_order(const void *a, const void *b)
{
    return earlier(a, b) ? -1 : 1;
}

/* The tasks of the timed lane in the order in which they will be taken, as a new list; NULL with MemoryError set. */
PyObject *
worker_timed_list(const Worker *worker)
{
    PyObject *list = PyList_New(0); /* first: making a list may run the collector, and with it anything */
    size_t n = (size_t)worker->n_timed;
    TimedEntry *entries = list == NULL ? NULL : PyMem_New(TimedEntry, n);
    if (entries == NULL) {
        Py_XDECREF(list);
        return PyErr_NoMemory();
    }
    if (n > 0) {
        memcpy(entries, worker->timed, n * sizeof(TimedEntry));
        qsort(entries, n, sizeof(TimedEntry), by_order);
    }
    for (size_t i = 0; list != NULL && i < n; i++) {
        if (PyList_Append(list, (PyObject *)entries[i].task) < 0) {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(entries);
    return list;
}

/* ---- life */

/* Worker number `id` of a run with this seed. A new reference, or NULL with MemoryError set. */
Worker *
worker_new(State *st, int id, uint64_t seed)
{
    Worker *worker = (Worker *)st->Worker->tp_alloc(st->Worker, 0);
    if (worker == NULL) {
        return NULL;
    }
    worker->id = id;
    worker->next_victim = (uint32_t)id;
    worker->stream = law_stream_init(seed, 1 + (int64_t)id);
    worker->steal_enabled = true;
    law_queue_init(&worker->cancel);
    law_queue_init(&worker->pinned);
    law_queue_init(&worker->stealable);
    return worker;
}

/* Take every task out of every lane; see worker.h. */
void
worker_empty(Worker *worker)
{
    LawQueue *queues[] = {&worker->cancel, &worker->pinned, &worker->stealable};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        LawLink *link;
        while ((link = law_queue_take_oldest(queues[i])) != NULL) {
            LAW_RECORD(link, Task, link)->lane = LAW_LANE_IDLE;
        }
    }
    while (worker->n_timed > 0) {
        worker->n_timed -= 1;
        worker->timed[worker->n_timed].task->lane = LAW_LANE_IDLE;
    }
}

/* The lanes borrow: there is nothing else to visit. */
static int
worker_traverse(Worker *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void
worker_dealloc(Worker *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyMem_Free(self->timed);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the Python face */

/* A view of one of the queues; which one is what the closure says. */
static PyObject *
get_queue(Worker *self, void *where)
{
    LawQueue *queue = (LawQueue *)(void *)((char *)self + (size_t)where);
    return law_view_new(state_of(Py_TYPE(self)), (PyObject *)self, queue);
}

static PyObject *
get_timed(Worker *self, void *Py_UNUSED(closure))
{
    return law_view_new_timed(state_of(Py_TYPE(self)), self);
}

/* Set one attribute to a value that is given away, or NULL with an exception set. False with an exception set. */
static bool
put(PyObject *object, const char *name, PyObject *value)
{
    bool done = value != NULL && PyObject_SetAttrString(object, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

/* A fresh WorkerStats with the counts of this moment. */
static PyObject *
get_stats(Worker *self, void *Py_UNUSED(closure))
{
    PyObject *stats = law_call(state_of(Py_TYPE(self)), "WorkerStats", NULL, 0);
    if (stats == NULL) {
        return NULL;
    }
    const int64_t *d = self->dispatched;
    PyObject *dispatched = Py_BuildValue("[LLLLLL]", (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3],
                                         (long long)d[4], (long long)d[5]);
    if (!put(stats, "dispatched", dispatched) || !put(stats, "injected", PyLong_FromLongLong(self->injected)) ||
        !put(stats, "steals", PyLong_FromLongLong(self->steals)) ||
        !put(stats, "steals_failed", PyLong_FromLongLong(self->steals_failed)) ||
        !put(stats, "stolen_from", PyLong_FromLongLong(self->stolen_from))) {
        Py_CLEAR(stats);
    }
    return stats;
}

static PyGetSetDef worker_getset[] = {
    {"cancel", (getter)get_queue, NULL, "tasks asked to stop", (void *)offsetof(Worker, cancel)},
    {"timed", (getter)get_timed, NULL, "tasks whose timer has fired", NULL},
    {"pinned", (getter)get_queue, NULL, "ready tasks that stay here", (void *)offsetof(Worker, pinned)},
    {"stealable", (getter)get_queue, NULL, "ready tasks for anybody", (void *)offsetof(Worker, stealable)},
    {"stats", (getter)get_stats, NULL, "what it did, in counts", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef worker_members[] = {
    {"id", T_INT, offsetof(Worker, id), READONLY, "its number, from 0"},
    {"cancel_streak", T_UINT, offsetof(Worker, cancel_streak), 0, "dispatches from the cancel lane in a row"},
    {"timed_streak", T_UINT, offsetof(Worker, timed_streak), 0, "timed dispatches since the last ready one"},
    {"ready_turns", T_LONGLONG, offsetof(Worker, dispatched) + LAW_LANE_READY * sizeof(int64_t), READONLY,
     "how often it took a ready task"},
    {"next_victim", T_UINT, offsetof(Worker, next_victim), READONLY, "whom it tried to steal from last"},
    {"steal_enabled", T_BOOL, offsetof(Worker, steal_enabled), 0, "whether it may steal"},
    {"stamp", T_UINT, offsetof(Worker, stamp), READONLY, "how many tasks were queued here"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot worker_slots[] = {
    {Py_tp_doc, (void *)"One logical worker: its lanes, its streaks, its random stream."},
    {Py_tp_dealloc, (void *)worker_dealloc},
    {Py_tp_traverse, (void *)worker_traverse},
    {Py_tp_getset, worker_getset},
    {Py_tp_members, worker_members},
    {0, NULL},
};

PyType_Spec worker_spec = {
    .name = "bursar._native.Worker",
    .basicsize = (int)sizeof(Worker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = worker_slots,
};
