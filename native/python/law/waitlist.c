/* Wait lists: after `WaitList` in law/wake.py.
 *
 * A wait list is a ring of links. A link is in a wait, which the list owns, or in a task that waits bare, which the
 * list borrows because a waiting task is alive (RECORD-2). Both types have the link at the same offset, so the object
 * around a link can be found, and its type says which of the two it is. Python knows only waits: for a bare task it
 * gets a new entry (`task_wait`), which behaves the same and is in no list.
 */

#include "python/law/waitlist.h"
#include "python/law/task.h"
#include "python/law/wait.h"

WaitList *
waitlist_new(ModuleState *st)
{
    return (WaitList *)PyObject_CallNoArgs((PyObject *)st->WaitList);
}

void
waitlist_join(WaitList *list, PyObject *waiter)
{
    LawLink *link = link_of(waiter);
    if (!law_linked(link)) {
        law_queue_append(&list->queue, link);
        if (!is_task(waiter)) {
            Py_INCREF(waiter);
        }
    }
}

/* Release the list's reference to `waiter`: a list owns waits and borrows tasks. */
static void
release_waiter(PyObject *waiter)
{
    if (!is_task(waiter)) {
        Py_DECREF(waiter);
    }
}

void
waitlist_leave(WaitList *list, PyObject *waiter)
{
    LawLink *link = link_of(waiter);
    if (law_linked(link)) {
        law_queue_remove(&list->queue, link);
        release_waiter(waiter);
    }
}

PyObject *
waitlist_oldest(WaitList *list)
{
    LawLink *link = law_queue_oldest(&list->queue);
    return link == NULL ? NULL : waiter_of(link);
}

PyObject *
waitlist_take(WaitList *list)
{
    LawLink *link = law_queue_take_oldest(&list->queue);
    if (link == NULL) {
        return NULL;
    }
    PyObject *waiter = waiter_of(link);
    return is_task(waiter) ? Py_NewRef(waiter) : waiter; /* the caller takes over the list's reference */
}

/* The wait that Python gets for a waiter: for a bare task a new entry. New reference, or NULL with MemoryError set. */
static PyObject *
wait_for_python(ModuleState *st, PyObject *waiter)
{
    return is_task(waiter) ? task_wait(st, (Task *)waiter) : Py_NewRef(waiter);
}

static PyObject *
waitlist_make(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    WaitList *self = (WaitList *)type->tp_alloc(type, 0);
    if (self != NULL) {
        law_queue_init(&self->queue);
    }
    return (PyObject *)self;
}

static int
waitlist_traverse(WaitList *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (LawLink *l = law_queue_oldest(&self->queue); l != NULL; l = law_queue_newer(&self->queue, l)) {
        if (!is_task(waiter_of(l))) {
            Py_VISIT(waiter_of(l));
        }
    }
    return 0;
}

static int
waitlist_clear(WaitList *self)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(&self->queue)) != NULL) {
        release_waiter(waiter_of(link));
    }
    return 0;
}

static void
waitlist_dealloc(WaitList *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    waitlist_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The waiter in the list for a wait that Python has: the wait itself, or the bare task for which Python got an entry.
 * Borrowed; NULL: the list has neither. */
static PyObject *
waiter_for(ModuleState *st, WaitList *self, PyObject *wait)
{
    if (!PyObject_TypeCheck(wait, st->Wait)) {
        return NULL;
    }
    if (law_linked(link_of(wait))) {
        return wait;
    }
    Task *task = ((Wait *)wait)->task;
    bool bare = task != NULL && task->bare && !task->timed && task->generation == ((Wait *)wait)->generation;
    if (!bare || !law_linked(&task->link)) {
        return NULL;
    }
    for (LawLink *l = law_queue_oldest(&self->queue); l != NULL; l = law_queue_newer(&self->queue, l)) {
        if (l == &task->link) {
            return (PyObject *)task;
        }
    }
    return NULL;
}

static PyObject *
waitlist_py_join(WaitList *self, PyObject *wait)
{
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || !PyObject_TypeCheck(wait, st->Wait)) {
        PyErr_Format(PyExc_TypeError, "only a wait can join a wait list, not %R", wait);
        return NULL;
    }
    waitlist_join(self, wait);
    Py_RETURN_NONE;
}

static PyObject *
waitlist_py_leave(WaitList *self, PyObject *wait)
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *waiter = st == NULL ? NULL : waiter_for(st, self, wait);
    if (waiter != NULL) {
        waitlist_leave(self, waiter);
    }
    Py_RETURN_NONE;
}

static PyObject *
waitlist_py_oldest(WaitList *self, PyObject *Py_UNUSED(unused))
{
    PyObject *waiter = waitlist_oldest(self);
    if (waiter == NULL) {
        PyErr_SetString(PyExc_StopIteration, "the wait list is empty");
        return NULL;
    }
    return wait_for_python(state_of(Py_TYPE(self)), waiter);
}

static PyObject *
waitlist_py_take(WaitList *self, PyObject *Py_UNUSED(unused))
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *waiter = waitlist_oldest(self);
    if (waiter == NULL) {
        PyErr_SetString(PyExc_KeyError, "the wait list is empty");
        return NULL;
    }
    PyObject *wait = wait_for_python(st, waiter);
    if (wait != NULL) {
        waitlist_leave(self, waiter);
    }
    return wait;
}

static PyObject *
waitlist_list(WaitList *self)
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *list = PyList_New(0);
    for (LawLink *l = law_queue_oldest(&self->queue); list && l; l = law_queue_newer(&self->queue, l)) {
        PyObject *wait = wait_for_python(st, waiter_of(l));
        if (wait == NULL || PyList_Append(list, wait) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(wait);
    }
    return list;
}

static PyObject *
waitlist_iter(WaitList *self)
{
    PyObject *list = waitlist_list(self);
    PyObject *iterator = list == NULL ? NULL : PyObject_GetIter(list);
    Py_XDECREF(list);
    return iterator;
}

static Py_ssize_t
waitlist_length(WaitList *self)
{
    return (Py_ssize_t)self->queue.length;
}

static int
waitlist_contains(WaitList *self, PyObject *wait)
{
    ModuleState *st = state_of(Py_TYPE(self));
    return st != NULL && waiter_for(st, self, wait) != NULL;
}

static PyMethodDef waitlist_methods[] = {
    {"join", (PyCFunction)waitlist_py_join, METH_O, "Put a wait at the end."},
    {"leave", (PyCFunction)waitlist_py_leave, METH_O, "Take a wait out, if it is in the list."},
    {"oldest", (PyCFunction)waitlist_py_oldest, METH_NOARGS, "The wait that is in the list longest."},
    {"take_oldest", (PyCFunction)waitlist_py_take, METH_NOARGS, "Take out the wait that is in the list longest."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot waitlist_slots[] = {
    {Py_tp_doc, "Waits for one thing, oldest first, with O(1) removal from anywhere."},
    {Py_tp_new, waitlist_make},
    {Py_tp_traverse, waitlist_traverse},
    {Py_tp_clear, waitlist_clear},
    {Py_tp_dealloc, waitlist_dealloc},
    {Py_tp_methods, waitlist_methods},
    {Py_tp_iter, waitlist_iter},
    {Py_sq_length, waitlist_length},
    {Py_sq_contains, waitlist_contains},
    {0, NULL},
};

PyType_Spec waitlist_spec = {
    .name = "bursar._native.WaitList",
    .basicsize = sizeof(WaitList),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = waitlist_slots,
};
