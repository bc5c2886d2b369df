/* One logical worker: its lanes, its streaks, its random stream. After `Worker` and `TimedLane` of law/lanes.py.
 *
 * The queues are rings through their tasks (law/lanes.h), and dispatch.c changes them. The timed lane is a heap
 * (law/heap.h), ordered by (deadline, task id). A task is in one lane at a time, so `stamp` has two uses: in a queue it
 * is the order in which the task came, in the timed lane the entry in the heap. The caller sets `task->lane`.
 *
 * A lane borrows its tasks (RECORD-1 of records.h). Python reads the lanes through views, which cannot change them.
 */

#include "python/law/worker.h"
#include "python/law/queue_view.h"
#include "python/law/timers.h"
#include "python/module/seam.h"

/* ---- the timed lane */

int
worker_reserve_timed(Worker *worker)
{
    if (!law_heap_reserve(&worker->timed, heap_memory, NULL)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
worker_push_timed(Worker *worker, Task *task, int64_t deadline_ns)
{
    law_heap_push(&worker->timed, &task->stamp, deadline_ns, task->id);
}

bool
worker_in_timed(const Worker *worker, const Task *task)
{
    return law_heap_has(&worker->timed, &task->stamp);
}

void
worker_remove_timed(Worker *worker, Task *task)
{
    law_heap_remove(&worker->timed, &task->stamp);
}

Task *
worker_earliest(const Worker *worker, int64_t now_ns)
{
    LawHeapEntry *due = law_heap_due(&worker->timed, now_ns);
    return due == NULL ? NULL : LAW_RECORD(due, Task, stamp);
}

/* The order of two entries, for qsort. No two entries are equal. */
static int
by_order(const void *a, const void *b)
{
    return law_heap_earlier(a, b) ? -1 : 1;
}

PyObject *
worker_timed_list(const Worker *worker)
{
    PyObject *list = PyList_New(0); /* first: making a list may start a collection, which may run any code */
    size_t n = worker->timed.count;
    LawHeapSlot *slots = list == NULL ? NULL : PyMem_New(LawHeapSlot, n);
    if (slots == NULL) {
        Py_XDECREF(list);
        return PyErr_NoMemory();
    }
    if (n > 0) {
        memcpy(slots, worker->timed.slots, n * sizeof(LawHeapSlot));
        qsort(slots, n, sizeof(LawHeapSlot), by_order);
    }
    for (size_t i = 0; list != NULL && i < n; i++) {
        if (PyList_Append(list, (PyObject *)LAW_RECORD(slots[i].entry, Task, stamp)) < 0) {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(slots);
    return list;
}

/* ---- making and freeing */

Worker *
worker_new(ModuleState *st, int id, uint64_t seed)
{
    Worker *worker = (Worker *)st->Worker->tp_alloc(st->Worker, 0);
    if (worker == NULL) {
        return NULL;
    }
    worker->id = id;
    worker->next_victim = (uint32_t)id;
    worker->stream = law_random_init(seed, 1 + (int64_t)id);
    worker->steal_enabled = true;
    law_queue_init(&worker->cancel);
    law_queue_init(&worker->pinned);
    law_queue_init(&worker->stealable);
    return worker;
}

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
    for (uint32_t i = 0; i < worker->timed.count; i++) {
        LAW_RECORD(worker->timed.slots[i].entry, Task, stamp)->lane = LAW_LANE_IDLE;
    }
    worker->timed.count = 0;
}

/* The lanes only borrow their tasks, so the type is all there is to visit. */
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
    PyMem_Free(self->timed.slots);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the Python type */

/* A view of one of the queues. The closure is the offset of the queue. */
static PyObject *
get_queue(Worker *self, void *where)
{
    LawQueue *queue = (LawQueue *)(void *)((char *)self + (size_t)where);
    return queue_view_make(state_of(Py_TYPE(self)), (PyObject *)self, queue);
}

static PyObject *
get_timed(Worker *self, void *Py_UNUSED(closure))
{
    return queue_view_make_timed(state_of(Py_TYPE(self)), self);
}

/* Set an attribute. Steals the reference to `value`, which may be NULL with an exception set. False with an exception
 * set. */
static bool
put(PyObject *object, const char *name, PyObject *value)
{
    bool done = value != NULL && PyObject_SetAttrString(object, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

/* A new WorkerStats with the current counts. */
static PyObject *
get_stats(Worker *self, void *Py_UNUSED(closure))
{
    PyObject *stats = py_call(state_of(Py_TYPE(self)), PY_WorkerStats, NULL, 0);
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
    {"stealable", (getter)get_queue, NULL, "ready tasks that any worker may take", (void *)offsetof(Worker, stealable)},
    {"stats", (getter)get_stats, NULL, "counts of what the worker did", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef worker_members[] = {
    {"id", T_INT, offsetof(Worker, id), READONLY, "the number of the worker, from 0"},
    {"cancel_streak", T_UINT, offsetof(Worker, cancel_streak), 0, "dispatches from the cancel lane in a row"},
    {"timed_streak", T_UINT, offsetof(Worker, timed_streak), 0, "timed dispatches since the last ready one"},
    {"ready_turns", T_LONGLONG, offsetof(Worker, dispatched) + LAW_LANE_READY * sizeof(int64_t), READONLY,
     "how often the worker took a ready task"},
    {"next_victim", T_UINT, offsetof(Worker, next_victim), READONLY, "the worker that it tried to steal from last"},
    {"steal_enabled", T_BOOL, offsetof(Worker, steal_enabled), 0, "whether the worker may steal"},
    {"stamp", T_UINT, offsetof(Worker, stamp), READONLY, "how many tasks were queued on this worker"},
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
