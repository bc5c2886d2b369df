/* Views: what Python sees of a queue of tasks. It has a length, can be walked oldest first, and knows who is in it.
 *
 * In src/bursar/law a queue is an ordered dictionary; here it is a ring of links inside an owner, or the heap of a
 * worker's timed lane, which is shown in the order in which it will be taken. Nobody changes a queue through a view.
 * A view is made when somebody asks for one, so that two of one queue are two objects: they are equal.
 *
 * VIEW-1  a view owns the owner of its queue; the queue outlives it
 * VIEW-2  walking a view walks the tasks of the moment when the walk began: what happens meanwhile does not disturb it
 */

#include "python/law/queue_view.h"
#include "python/law/task.h"
#include "python/law/worker.h"

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* owned (VIEW-1) */
    LawQueue *queue; /* NULL: the timed lane of `owner`, a Worker */
} QueueView;

/* Any view. NULL with MemoryError set. */
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

/* Only the owner goes; nobody can reach a view that the collector takes apart. */
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

/* The tasks, oldest first, as a new list; NULL with MemoryError set. The list is made before the walk: making one may
 * run the collector, and with it anything. */
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

/* Equal: of the same queue. */
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
    {Py_tp_doc, (void *)"A queue of tasks, oldest first; to look at."},
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
