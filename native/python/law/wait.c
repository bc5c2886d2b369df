/* Waits and entries: after `Wait` in law/wake.py and `Entry` in request.py. waitlist.c has the lists.
 *
 * A task that waits bare has no such object: the task itself is in the list. Python knows only waits, so when Python
 * reads the wait of a bare task, it gets a new entry that behaves the same (`task_wait`).
 */

#include "python/law/wait.h"
#include "python/law/dispatch_wake.h"
#include "python/law/task.h"
#include "python/ops/request.h"

/* ---- Wait */

static int
wait_init(Wait *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(Py_TYPE(self));
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
    PyErr_SetString(PyExc_NotImplementedError, "a subclass of Wait must define `reason`");
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
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || !PyObject_TypeCheck(thing, st->Kernel)) {
        PyErr_Format(PyExc_TypeError, "%R is not a native kernel", thing);
        return NULL;
    }
    return (Kernel *)thing;
}

/* The kernel among the arguments (kernel, value). NULL with TypeError set, also for a wait whose __init__ never ran. */
static Kernel *
kernel_to_answer(Wait *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || self->task == NULL) {
        PyErr_SetString(PyExc_TypeError,
                        "answer() and refuse() take a kernel and a value, and need a wait that was made with a task");
        return NULL;
    }
    return as_kernel((PyObject *)self, args[0]);
}

/* The operation took effect: resume the task with its result. */
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

/* The operation is impossible: resume the task with an error. */
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
    {"withdraw", wait_nothing, METH_O, "Leave every queue that this wait is still in."},
    {"interrupted", wait_nothing, METH_O,
     "The task was asked to stop, or was cut, and this wait is not interruptible."},
    {"expired", (PyCFunction)(void (*)(void))wait_expired, METH_FASTCALL, "A timer that this wait armed has fired."},
    {"answer", (PyCFunction)(void (*)(void))wait_answer, METH_FASTCALL,
     "The operation took effect: resume the task with its result."},
    {"refuse", (PyCFunction)(void (*)(void))wait_refuse, METH_FASTCALL,
     "The operation is impossible: resume the task with an error."},
    {"blockers", wait_blockers, METH_NOARGS, "The tasks that can end this wait, as far as that is known."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef wait_getset[] = {
    {"reason", wait_reason, NULL, NULL, NULL},
    {"task", (getter)wait_task, NULL, NULL, NULL},
    {"generation", (getter)wait_generation, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot wait_slots[] = {
    {Py_tp_doc, "The wait of one task for one thing."},
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
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *task, *operation;
    if (st == NULL || !PyArg_ParseTuple(args, "O!O:Entry", st->Task, &task, &operation)) {
        return -1;
    }
    Py_XSETREF(self->wait.task, (Task *)Py_NewRef(task));
    self->wait.generation = self->wait.task->generation;
    Py_XSETREF(self->operation, Py_NewRef(operation));
    return 0;
}

Entry *
entry_new(ModuleState *st, Task *task, PyObject *operation)
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
    bool shows_bare = task->bare && task->pending == self->operation && !law_linked(&self->wait.link); /* `task_wait` */
    PyObject *waiter = shows_bare ? (PyObject *)task : (PyObject *)self;
    if (operation_delist(k, self->operation, waiter) < 0) {
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
    {"blockers", (PyCFunction)entry_blockers, METH_NOARGS,
     "The tasks that can end this wait, as far as that is known."},
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
    {Py_tp_doc, "The wait of one task for one operation, in the queue of that operation."},
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

/* ---- waiters: a task that waits bare, or a wait */

Task *
waiter_task(PyObject *waiter)
{
    return is_task(waiter) ? (Task *)waiter : ((Wait *)waiter)->task;
}

PyObject *
waiter_operation(ModuleState *st, PyObject *waiter)
{
    if (is_task(waiter)) {
        return ((Task *)waiter)->pending;
    }
    return PyObject_TypeCheck(waiter, st->Entry) ? ((Entry *)waiter)->operation : NULL;
}

PyObject *
task_wait(ModuleState *st, Task *task)
{
    if (task->state != LAW_STATE_BLOCKED || task->pending == NULL) {
        Py_RETURN_NONE;
    }
    return task->bare ? (PyObject *)entry_new(st, task, task->pending) : Py_NewRef(task->pending);
}
