/* Read-only Python views of queues of tasks. A view has a length, iterates oldest first, and supports `in`.
 *
 * In src/bursar/law a queue is an ordered dictionary. Here it is a ring of links inside an owner, or the heap of a
 * worker's timed lane; a view of the heap iterates in the order in which tasks will be taken. Each read of the
 * attribute makes a new view, and two views of one queue are equal.
 *
 * VIEW-1  a view owns a reference to the owner of its queue, so the queue outlives the view
 * VIEW-2  a walk over a view sees the tasks of the moment when the walk began
 */

#include "python/law/queue_view.h"
#include "python/law/task.h"
#include "python/law/worker.h"

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* owned (VIEW-1) */
    LawQueue *queue; /* NULL: the timed lane of `owner`, a Worker */
} QueueView;

/* `queue` is NULL for the timed lane. NULL with MemoryError set. */
static PyObject *
queue_view_new(ModuleState *st, PyObject *owner, LawQueue *queue)
{
    QueueView *view = (QueueView *)st->QueueView->tp_alloc(st->QueueView, 0);
    if (view != NULL) {
        view->owner = Py_NewRef(owner);
        view->queue = queue;
    }
    return (PyObject *)view;
}

PyObject *
queue_view_make(ModuleState *st, PyObject *owner, LawQueue *queue)
{
    return queue_view_new(st, owner, queue);
}

PyObject *
queue_view_make_timed(ModuleState *st, Worker *worker)
{
    return queue_view_new(st, (PyObject *)worker, NULL);
}

static int
queue_view_traverse(QueueView *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    return 0;
}

static void
queue_view_dealloc(QueueView *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t
queue_view_length(QueueView *self)
{
    return self->queue == NULL ? (Py_ssize_t)((Worker *)self->owner)->timed.count : (Py_ssize_t)self->queue->length;
}

/* The tasks, oldest first, as a new list; NULL with MemoryError set. The list is made before the walk, because making
 * it may start a collection, which may run any code. */
static PyObject *
queue_view_list(QueueView *self)
{
    if (self->queue == NULL) {
        return worker_timed_list((Worker *)self->owner);
    }
    PyObject *list = PyList_New(0);
    for (LawLink *link = law_queue_oldest(self->queue); list != NULL && link != NULL;
         link = law_queue_newer(self->queue, link)) {
        if (PyList_Append(list, (PyObject *)LAW_RECORD(link, Task, link)) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
queue_view_iter(QueueView *self)
{
    PyObject *list = queue_view_list(self);
    if (list == NULL) {
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(list);
    Py_DECREF(list);
    return iterator;
}

static int
queue_view_contains(QueueView *self, PyObject *what)
{
    if (!is_task(what)) {
        return 0;
    }
    if (self->queue == NULL) {
        return worker_in_timed((Worker *)self->owner, (Task *)what);
    }
    for (LawLink *link = law_queue_oldest(self->queue); link != NULL; link = law_queue_newer(self->queue, link)) {
        if (link == &((Task *)what)->link) {
            return 1;
        }
    }
    return 0;
}

/* Two views are equal if they show the same queue. */
static PyObject *
queue_view_richcompare(QueueView *self, PyObject *other, int op)
{
    if (Py_TYPE(other) != Py_TYPE(self) || (op != Py_EQ && op != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const QueueView *that = (const QueueView *)other;
    bool same = self->owner == that->owner && self->queue == that->queue;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t
queue_view_hash(QueueView *self)
{
    Py_hash_t hash = (Py_hash_t)((uintptr_t)self->owner ^ ((uintptr_t)self->queue >> 4));
    return hash == -1 ? -2 : hash;
}

static PyObject *
queue_view_repr(QueueView *self)
{
    PyObject *list = queue_view_list(self);
    PyObject *text = list == NULL ? NULL : PyUnicode_FromFormat("<queue %R>", list);
    Py_XDECREF(list);
    return text;
}

static PyType_Slot queue_view_slots[] = {
    {Py_tp_doc, (void *)"A read-only view of a queue of tasks, oldest first."},
    {Py_tp_dealloc, (void *)queue_view_dealloc},
    {Py_tp_traverse, (void *)queue_view_traverse},
    {Py_tp_iter, (void *)queue_view_iter},
    {Py_tp_richcompare, (void *)queue_view_richcompare},
    {Py_tp_hash, (void *)queue_view_hash},
    {Py_tp_repr, (void *)queue_view_repr},
    {Py_sq_length, (void *)queue_view_length},
    {Py_sq_contains, (void *)queue_view_contains},
    {0, NULL},
};

PyType_Spec queue_view_spec = {
    .name = "bursar._native.QueueView",
    .basicsize = (int)sizeof(QueueView),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = queue_view_slots,
};
