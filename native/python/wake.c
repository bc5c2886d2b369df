/* Waits, entries and wait lists: after law/wake.py, and `Entry` of request.py.
 *
 * A wait list is a ring of links. A link belongs to a wait (an object, which the list then owns) or to a task that
 * waits bare (borrowed: a waiting task lives). Both have their link at the same place, so that the type of the object
 * around a link says which of the two it is. Python sees waits only: for a bare task it is shown an entry that stands
 * for it (`task_wait`), which behaves the same and is in no list itself.
 */

#include "core.h"

/* ---- Wait */

static int
wait_init(Wait *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    State *st = state_of(Py_TYPE(self));
    PyObject *task;
    if (st == NULL || !PyArg_ParseTuple(args, "O!:Wait", st->Task, &task)) {
        return -1;
    }
    Py_XSETREF(self->task, (Task *)Py_NewRef(task));
    self->generation = self->task->generation;
    return 0;
}

static int
wait_traverse(Wait *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->task);
    return 0;
}

static int
wait_clear(Wait *self)
{
    Py_CLEAR(self->task);
    return 0;
}

static void
wait_dealloc(Wait *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    wait_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
wait_reason(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    PyErr_SetString(PyExc_NotImplementedError, "a wait says its reason");
    return NULL;
}

static PyObject *
wait_task(Wait *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->task ? (PyObject *)self->task : Py_None);
}

static PyObject *
wait_generation(Wait *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->generation);
}

static PyObject *
wait_nothing(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(arg))
{
    Py_RETURN_NONE;
}

static PyObject *
wait_expired(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "expired() takes a kernel and a timer");
        return NULL;
    }
    return PyObject_CallMethod(self, "withdraw", "O", args[0]);
}

static Kernel *
as_kernel(PyObject *self, PyObject *thing)
{
    State *st = state_of(Py_TYPE(self));
    if (st == NULL || !PyObject_TypeCheck(thing, st->Kernel)) {
        PyErr_SetString(PyExc_TypeError, "not a native kernel");
        return NULL;
    }
    return (Kernel *)thing;
}

/* The kernel among the two arguments of an answer; NULL with TypeError set, also for a wait that was never made. */
static Kernel *
kernel_to_answer(Wait *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || self->task == NULL) {
        PyErr_SetString(PyExc_TypeError, "a wait of a task is answered with a kernel and a value");
        return NULL;
    }
    return as_kernel((PyObject *)self, args[0]);
}

/* The operation took effect: the task resumes with its result. */
static PyObject *
wait_answer(Wait *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k = kernel_to_answer(self, args, n);
    LawNotice notice;
    if (k == NULL || k_wake(k, self->task, self->generation, args[1], NULL, true, &notice) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The operation cannot be: the task resumes with an error. */
static PyObject *
wait_refuse(Wait *self, PyObject *const *args, Py_ssize_t n)
{
    Kernel *k = kernel_to_answer(self, args, n);
    LawNotice notice;
    if (k == NULL || k_wake(k, self->task, self->generation, NULL, args[1], false, &notice) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
wait_blockers(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyTuple_New(0);
}

static PyMethodDef wait_methods[] = {
    {"withdraw", wait_nothing, METH_O, "Leave every queue, if still in one."},
    {"interrupted", wait_nothing, METH_O, "The task was asked to stop, and this wait is not interruptible."},
    {"expired", (PyCFunction)(void (*)(void))wait_expired, METH_FASTCALL, "A timer that this wait armed has fired."},
    {"answer", (PyCFunction)(void (*)(void))wait_answer, METH_FASTCALL, "The task resumes with a result."},
    {"refuse", (PyCFunction)(void (*)(void))wait_refuse, METH_FASTCALL, "The task resumes with an error."},
    {"blockers", wait_blockers, METH_NOARGS, "The tasks that this wait is known to depend on."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef wait_getset[] = {
    {"reason", wait_reason, NULL, NULL, NULL},
    {"task", (getter)wait_task, NULL, NULL, NULL},
    {"generation", (getter)wait_generation, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot wait_slots[] = {
    {Py_tp_doc, "One task waiting for one thing."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, wait_init},
    {Py_tp_traverse, wait_traverse},
    {Py_tp_clear, wait_clear},
    {Py_tp_dealloc, wait_dealloc},
    {Py_tp_methods, wait_methods},
    {Py_tp_getset, wait_getset},
    {0, NULL},
};

PyType_Spec wait_spec = {
    .name = "bursar._native.Wait",
    .basicsize = sizeof(Wait),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = wait_slots,
};

/* ---- Entry */

static int
entry_init(Entry *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    State *st = state_of(Py_TYPE(self));
    PyObject *task, *operation;
    if (st == NULL || !PyArg_ParseTuple(args, "O!O:Entry", st->Task, &task, &operation)) {
        return -1;
    }
    Py_XSETREF(self->wait.task, (Task *)Py_NewRef(task));
    self->wait.generation = self->wait.task->generation;
    Py_XSETREF(self->operation, Py_NewRef(operation));
    return 0;
}

/* A new entry of `task` in the queue of `operation`. */
Entry *
entry_new(State *st, Task *task, PyObject *operation)
{
    Entry *self = (Entry *)st->Entry->tp_alloc(st->Entry, 0);
    if (self != NULL) {
        self->wait.task = (Task *)Py_NewRef((PyObject *)task);
        self->wait.generation = task->generation;
        self->operation = Py_NewRef(operation);
    }
    return self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->operation);
    Py_VISIT(self->token);
    return wait_traverse(&self->wait, visit, arg);
}

static int
entry_clear(Entry *self)
{
    Py_CLEAR(self->operation);
    Py_CLEAR(self->token);
    return wait_clear(&self->wait);
}

static void
entry_dealloc(Entry *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
entry_reason(Entry *self, void *Py_UNUSED(closure))
{
    return PyObject_CallMethod(self->operation, "why", NULL);
}

static PyObject *
entry_withdraw(Entry *self, PyObject *kernel)
{
    Kernel *k = as_kernel((PyObject *)self, kernel);
    if (k == NULL) {
        return NULL;
    }
    Task *task = self->wait.task;
    bool stands = task->bare && task->pending == self->operation && !law_linked(&self->wait.link);
    PyObject *who = stands ? (PyObject *)task : (PyObject *)self;
    if (operation_delist(k, self->operation, who) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
entry_blockers(Entry *self, PyObject *Py_UNUSED(unused))
{
    return PyObject_CallMethod(self->operation, "blockers", NULL);
}

static PyMethodDef entry_methods[] = {
    {"withdraw", (PyCFunction)entry_withdraw, METH_O, "Leave the queue, if still in it."},
    {"blockers", (PyCFunction)entry_blockers, METH_NOARGS, "The tasks that can end this wait, where that is known."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef entry_members[] = {
    {"operation", T_OBJECT, offsetof(Entry, operation), 0, NULL},
    {"token", T_OBJECT, offsetof(Entry, token), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef entry_getset[] = {
    {"reason", (getter)entry_reason, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, "One task in the queue of one operation."},
    {Py_tp_init, entry_init},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_clear},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_methods, entry_methods},
    {Py_tp_members, entry_members},
    {Py_tp_getset, entry_getset},
    {0, NULL},
};

PyType_Spec entry_spec = {
    .name = "bursar._native.Entry",
    .basicsize = sizeof(Entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = entry_slots,
};

/* ---- who: a task that waits bare, or a wait */

Task *
who_task(PyObject *who)
{
    return is_task(who) ? (Task *)who : ((Wait *)who)->task;
}

PyObject *
who_operation(State *st, PyObject *who)
{
    if (is_task(who)) {
        return ((Task *)who)->pending;
    }
    return PyObject_TypeCheck(who, st->Entry) ? ((Entry *)who)->operation : NULL;
}

PyObject *
task_wait(State *st, Task *task)
{
    if (task->state != LAW_STATE_BLOCKED || task->pending == NULL) {
        Py_RETURN_NONE;
    }
    return task->bare ? (PyObject *)entry_new(st, task, task->pending) : Py_NewRef(task->pending);
}

/* ---- WaitList */

WaitList *
waitlist_new(State *st)
{
    return (WaitList *)PyObject_CallNoArgs((PyObject *)st->WaitList);
}

void
waitlist_join(WaitList *list, PyObject *who)
{
    LawLink *link = link_of(who);
    if (!law_linked(link)) {
        law_queue_append(&list->queue, link);
        if (!is_task(who)) {
            Py_INCREF(who);
        }
    }
}

/* What a list gives up of `who`: the reference to a wait, nothing of a task. */
static void
let_go(PyObject *who)
{
    if (!is_task(who)) {
        Py_DECREF(who);
    }
}

void
waitlist_leave(WaitList *list, PyObject *who)
{
    LawLink *link = link_of(who);
    if (law_linked(link)) {
        law_queue_remove(&list->queue, link);
        let_go(who);
    }
}

PyObject *
waitlist_oldest(WaitList *list)
{
    LawLink *link = law_queue_oldest(&list->queue);
    return link == NULL ? NULL : who_of(link);
}

PyObject *
waitlist_take(WaitList *list)
{
    LawLink *link = law_queue_take_oldest(&list->queue);
    if (link == NULL) {
        return NULL;
    }
    PyObject *who = who_of(link);
    return is_task(who) ? Py_NewRef(who) : who; /* the list's own reference becomes the caller's */
}

/* As Python sees it: for a bare task an entry that stands for it. New reference. */
static PyObject *
shown(State *st, PyObject *who)
{
    return is_task(who) ? task_wait(st, (Task *)who) : Py_NewRef(who);
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
        if (!is_task(who_of(l))) {
            Py_VISIT(who_of(l));
        }
    }
    return 0;
}

static int
waitlist_clear(WaitList *self)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(&self->queue)) != NULL) {
        let_go(who_of(link));
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

/* The wait that Python means, if it is one of ours: what is in the list for it, borrowed; or NULL. */
static PyObject *
meant(State *st, WaitList *self, PyObject *wait)
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
    State *st = state_of(Py_TYPE(self));
    if (st == NULL || !PyObject_TypeCheck(wait, st->Wait)) {
        PyErr_SetString(PyExc_TypeError, "only a wait can join a wait list");
        return NULL;
    }
    waitlist_join(self, wait);
    Py_RETURN_NONE;
}

static PyObject *
waitlist_py_leave(WaitList *self, PyObject *wait)
{
    State *st = state_of(Py_TYPE(self));
    PyObject *who = st == NULL ? NULL : meant(st, self, wait);
    if (who != NULL) {
        waitlist_leave(self, who);
    }
    Py_RETURN_NONE;
}

static PyObject *
waitlist_py_oldest(WaitList *self, PyObject *Py_UNUSED(unused))
{
    PyObject *who = waitlist_oldest(self);
    if (who == NULL) {
        PyErr_SetString(PyExc_StopIteration, "nobody waits");
        return NULL;
    }
    return shown(state_of(Py_TYPE(self)), who);
}

static PyObject *
waitlist_py_take(WaitList *self, PyObject *Py_UNUSED(unused))
{
    State *st = state_of(Py_TYPE(self));
    PyObject *who = waitlist_oldest(self);
    if (who == NULL) {
        PyErr_SetString(PyExc_KeyError, "nobody waits");
        return NULL;
    }
    PyObject *wait = shown(st, who);
    if (wait != NULL) {
        waitlist_leave(self, who);
    }
    return wait;
}

static PyObject *
waitlist_list(WaitList *self)
{
    State *st = state_of(Py_TYPE(self));
    PyObject *list = PyList_New(0);
    for (LawLink *l = law_queue_oldest(&self->queue); list && l; l = law_queue_newer(&self->queue, l)) {
        PyObject *wait = shown(st, who_of(l));
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
    State *st = state_of(Py_TYPE(self));
    return st != NULL && meant(st, self, wait) != NULL;
}

static PyMethodDef waitlist_methods[] = {
    {"join", (PyCFunction)waitlist_py_join, METH_O, "Put a wait at the end."},
    {"leave", (PyCFunction)waitlist_py_leave, METH_O, "Take a wait out, if it is in."},
    {"oldest", (PyCFunction)waitlist_py_oldest, METH_NOARGS, "The one that waits longest."},
    {"take_oldest", (PyCFunction)waitlist_py_take, METH_NOARGS, "The one that waits longest, taken out."},
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
