/* Events. After `Event` and `_EventWait` in src/bursar/ops/sync.py. Locks and semaphores are Python classes.
 *
 * All tasks that wait for one event wait bare and share one request: the request holds nothing but its event. So a
 * waiting task needs no object.
 *
 * EVENT-1  an event has at most one living request, and knows it until it dies; the request owns the event
 */

#include "python/ops/sync.h"
#include "python/law/dispatch_wake.h"
#include "python/law/task.h"
#include "python/law/waitlist.h"
#include "python/module/seam.h"
#include "python/ops/request.h"
#include "python/ops/request_fast.h"
#include "law/generated/docstrings.h"

typedef struct EventWait EventWait;

/* `Event`. */
typedef struct Event {
    PyObject_HEAD
    ModuleState *st;
    Kernel *kernel; /* owned; NULL until a task waits */
    WaitList *waiters;
    EventWait *request; /* borrowed, or NULL (EVENT-1) */
    bool set;
} Event;

/* The request behind `Event.wait`. */
struct EventWait {
    Request request;
    Event *event;
};

/* ---- the event */

static PyObject *
event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    ModuleState *st = state_of(type);
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, ":Event", names)) {
        return NULL;
    }
    Event *self = (Event *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->st = st;
    self->waiters = waitlist_new(st);
    if (self->waiters == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
event_traverse(Event *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->waiters);
    return 0;
}

static int
event_clear(Event *self)
{
    Py_CLEAR(self->kernel);
    return 0;
}

static void
event_dealloc(Event *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    assert(self->request == NULL); /* a request would own the event (EVENT-1) */
    event_clear(self);
    Py_XDECREF(self->waiters);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The first task that waits binds the event to its kernel. -1 with ScopeMisuse set: another kernel uses the event. */
static int
event_bind(Event *self, Kernel *k, Task *task)
{
    if (self->kernel == k) {
        return 0;
    }
    if (self->kernel == NULL) {
        self->kernel = (Kernel *)Py_NewRef(k);
        return 0;
    }
    PyObject *kind = PyType_GetName(Py_TYPE(self));
    PyObject *text = kind == NULL
                         ? NULL
                         : PyUnicode_FromFormat("task %R used a %U that belongs to another runtime", task->name, kind);
    PyObject *error = text == NULL ? NULL : py_call(self->st, PY_ScopeMisuse, &text, 1);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    }
    Py_XDECREF(kind);
    Py_XDECREF(text);
    Py_XDECREF(error);
    return -1;
}

/* Answer the waiter that has waited longest. 0, or -1 with an exception set: KeyError if there is no waiter. */
static int
event_answer(Event *self, PyObject *value)
{
    if (self->kernel == NULL) {
        PyErr_SetString(PyExc_AssertionError, "only a bound object has waiters");
        return -1;
    }
    PyObject *waiter = waitlist_take(self->waiters);
    if (waiter == NULL) {
        PyErr_SetString(PyExc_KeyError, "no task waits");
        return -1;
    }
    int answered = k_answer(self->kernel, waiter, value);
    Py_DECREF(waiter);
    return answered;
}

static PyObject *
event_py_bind(Event *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], self->st->Kernel) || !is_task(args[1])) {
        PyErr_SetString(PyExc_TypeError, "bind() takes a native kernel and a task of it");
        return NULL;
    }
    if (event_bind(self, (Kernel *)args[0], (Task *)args[1]) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
event_py_answer(Event *self, PyObject *value)
{
    if (event_answer(self, value) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
event_is_set(Event *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(self->set);
}

static PyObject *
event_set(Event *self, PyObject *Py_UNUSED(unused))
{
    if (self->kernel != NULL && require_thread(self->kernel, "Event.set()") < 0) {
        return NULL;
    }
    self->set = true;
    while (!waitlist_empty(self->waiters)) {
        if (event_answer(self, Py_None) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static const RequestVT event_wait_vt;

static PyObject *
event_wait(Event *self, PyObject *Py_UNUSED(unused))
{
    if (self->request == NULL) {
        EventWait *request = PyObject_GC_New(EventWait, self->st->EventWait);
        if (request == NULL) {
            return NULL;
        }
        request->request.vt = &event_wait_vt;
        request->request.step = REQUEST_NEW;
        request->event = (Event *)Py_NewRef(self);
        PyObject_GC_Track(request);
        self->request = request;
        return (PyObject *)request;
    }
    return Py_NewRef(self->request);
}

static PyMethodDef event_methods[] = {
    {"is_set", (PyCFunction)event_is_set, METH_NOARGS, "is_set($self, /)\n--\n\n" DOC_Event_is_set},
    {"set", (PyCFunction)event_set, METH_NOARGS, "set($self, /)\n--\n\n" DOC_Event_set},
    {"wait", (PyCFunction)event_wait, METH_NOARGS, "wait($self, /)\n--\n\n" DOC_Event_wait},
    {"_bind", (PyCFunction)(void (*)(void))event_py_bind, METH_FASTCALL, "The first task that waits binds it."},
    {"_answer_oldest", (PyCFunction)event_py_answer, METH_O, "Answer the waiter that has waited longest."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef event_members[] = {
    {"_kernel", T_OBJECT, offsetof(Event, kernel), READONLY, NULL},
    {"_waiters", T_OBJECT_EX, offsetof(Event, waiters), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot event_slots[] = {
    {Py_tp_doc, "Event()\n--\n\n" DOC_Event}, {Py_tp_new, event_new},
    {Py_tp_traverse, event_traverse},         {Py_tp_clear, event_clear},
    {Py_tp_dealloc, event_dealloc},           {Py_tp_methods, event_methods},
    {Py_tp_members, event_members},           {0, NULL},
};

PyType_Spec event_spec = {
    .name = "bursar.ops.sync.Event",
    .basicsize = sizeof(Event),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = event_slots,
};

/* ---- the request. Its reference to the event is never cleared: see channel.c */

static int
event_wait_traverse(EventWait *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->event);
    return 0;
}

static void
event_wait_dealloc(EventWait *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    self->event->request = NULL; /* EVENT-1 */
    request_check_used(&self->request);
    Py_DECREF(self->event);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int
event_wait_ready(Kernel *k, Task *task, Request *request)
{
    Event *event = ((EventWait *)request)->event;
    return event_bind(event, k, task) < 0 ? -1 : event->set;
}

static int
event_wait_enlist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    waitlist_join(((EventWait *)request)->event->waiters, waiter);
    return 0;
}

static int
event_wait_delist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    waitlist_leave(((EventWait *)request)->event->waiters, waiter);
    return 0;
}

static const RequestVT event_wait_vt = {
    .cost = LAW_ROW_OP,
    .ready = event_wait_ready,
    .take = request_take_nothing,
    .enlist = event_wait_enlist,
    .delist = event_wait_delist,
};

static PyObject *
event_wait_why(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString("waits for an event");
}

static PyMethodDef event_wait_methods[] = {
    {"why", event_wait_why, METH_NOARGS, "What a task does that waits for this."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot event_wait_slots[] = {
    {Py_tp_doc, "The request behind `Event.wait`."},
    {Py_tp_traverse, event_wait_traverse},
    {Py_tp_dealloc, event_wait_dealloc},
    {Py_tp_methods, event_wait_methods},
    {Py_am_send, request_send}, /* which is not inherited */
    {0, NULL},
};

PyType_Spec event_wait_spec = {
    .name = "bursar.ops.sync.EventWait",
    .basicsize = sizeof(EventWait),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = event_wait_slots,
};
