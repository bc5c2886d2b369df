/* The tickets that wait for permission, by class: after `WaitClass` and `QueuesCore` in law/admission/queues.py.
 *
 * A wait class is a ring of links inside its tickets, so a ticket can leave from the middle in O(1). A class owns its
 * tickets, and each ticket knows its class. `QueuesCore.classes` owns the classes; a class that becomes empty is
 * removed.
 */

#include "python/law/admission/queues.h"
#include "python/law/admission/ticket.h"
#include "python/law/deferred_error.h"

#include <structmember.h>

/* ---- one class */

static Ticket *
wait_class_last(const WaitClass *wait_class)
{
    return LAW_RECORD(wait_class->queue.ring.older, Ticket, link);
}

/* An empty class. New reference, or NULL with MemoryError set. */
static WaitClass *
wait_class_new(ModuleState *st, PyObject *key, int64_t priority)
{
    WaitClass *wait_class = (WaitClass *)st->WaitClass->tp_alloc(st->WaitClass, 0);
    if (wait_class == NULL) {
        return NULL;
    }
    law_queue_init(&wait_class->queue);
    wait_class->key = Py_NewRef(key);
    wait_class->priority = priority;
    wait_class->overtaken = PyList_New(0);
    if (wait_class->overtaken == NULL) {
        Py_CLEAR(wait_class);
    }
    return wait_class;
}

static int
wait_class_traverse(WaitClass *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->key);
    Py_VISIT(self->overtaken);
    for (LawLink *l = law_queue_oldest(&self->queue); l != NULL; l = law_queue_newer(&self->queue, l)) {
        Py_VISIT((PyObject *)LAW_RECORD(l, Ticket, link));
    }
    return 0;
}

static int
wait_class_clear(WaitClass *self)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(&self->queue)) != NULL) {
        Ticket *ticket = LAW_RECORD(link, Ticket, link);
        ticket->wait_class = NULL;
        Py_DECREF((PyObject *)ticket);
    }
    Py_CLEAR(self->key);
    Py_CLEAR(self->overtaken);
    return 0;
}

static void
wait_class_dealloc(WaitClass *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    wait_class_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t
wait_class_length(WaitClass *self)
{
    return (Py_ssize_t)self->queue.length;
}

/* Iterates over a list of the tickets that are in the class now. */
static PyObject *
wait_class_iter(WaitClass *self)
{
    PyObject *list = PyList_New(0), *iterator = NULL;
    LawLink *l = list == NULL ? NULL : law_queue_oldest(&self->queue);
    int failed = list == NULL ? -1 : 0;
    for (; l != NULL && failed == 0; l = law_queue_newer(&self->queue, l)) {
        failed = PyList_Append(list, (PyObject *)LAW_RECORD(l, Ticket, link));
    }
    if (failed == 0) {
        iterator = PyObject_GetIter(list);
    }
    Py_XDECREF(list);
    return iterator;
}

static PyObject *
get_first(WaitClass *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->queue.length == 0 ? Py_None : (PyObject *)wait_class_first(self));
}

static PyObject *
get_last(WaitClass *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->queue.length == 0 ? Py_None : (PyObject *)wait_class_last(self));
}

static PyGetSetDef wait_class_getset[] = {
    {"first", (getter)get_first, NULL, NULL, NULL},
    {"last", (getter)get_last, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef wait_class_members[] = {
    {"overtaken", T_OBJECT, offsetof(WaitClass, overtaken), READONLY, NULL},
    {"priority", T_LONGLONG, offsetof(WaitClass, priority), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot wait_class_slots[] = {
    {Py_tp_doc, "The waiting tickets of one class, first come, first served; never empty."},
    {Py_tp_traverse, wait_class_traverse},
    {Py_tp_clear, wait_class_clear},
    {Py_tp_dealloc, wait_class_dealloc},
    {Py_tp_getset, wait_class_getset},
    {Py_tp_members, wait_class_members},
    {Py_tp_iter, wait_class_iter},
    {Py_sq_length, wait_class_length},
    {0, NULL},
};

PyType_Spec wait_class_spec = {
    .name = "bursar._native.WaitClass",
    .basicsize = sizeof(WaitClass),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = wait_class_slots,
};

/* ---- all classes */

/* The class of a ticket, made if there is none (*made). Borrowed; NULL: error. No collection runs here: an allocation
 * could start one, and a destructor could change the queues. */
static WaitClass *
wait_class_for(ModuleState *st, QueuesCore *queues, const Ticket *ticket, bool *made)
{
    WaitClass *wait_class = queues->recent; /* most tickets have the class of the ticket before them */
    *made = false;
    if (wait_class != NULL && wait_class->priority == ticket->priority &&
        PyTuple_GET_ITEM(wait_class->key, 1) == ticket->demand) {
        return wait_class;
    }
    int collects = PyGC_Disable();
    PyObject *key = Py_BuildValue("LO", (long long)ticket->priority, ticket->demand);
    wait_class = key == NULL ? NULL : (WaitClass *)PyDict_GetItemWithError(queues->classes, key);
    if (key != NULL && wait_class == NULL && !PyErr_Occurred()) {
        wait_class = wait_class_new(st, key, ticket->priority);
        int failed = wait_class == NULL ? -1 : PyDict_SetItem(queues->classes, key, (PyObject *)wait_class);
        Py_XDECREF((PyObject *)wait_class); /* the dict owns it */
        wait_class = failed < 0 ? NULL : wait_class;
        *made = true;
    }
    Py_XDECREF(key);
    if (collects) {
        PyGC_Enable();
    }
    queues->recent = wait_class;
    return wait_class;
}

int
queues_enter(ModuleState *st, QueuesCore *queues, Ticket *ticket)
{
    bool made;
    if (rule(ticket->wait_class == NULL, "GATE-3") < 0) {
        return -1;
    }
    WaitClass *wait_class = wait_class_for(st, queues, ticket, &made);
    if (wait_class == NULL) {
        return -1;
    }
    law_queue_append(&wait_class->queue, &ticket->link);
    ticket->wait_class = wait_class;
    Py_INCREF((PyObject *)ticket);
    queues->entered += 1;
    queues->length += 1;
    ticket->place = queues->entered;
    return made ? 1 : 0;
}

int
queues_leave(QueuesCore *queues, Ticket *ticket)
{
    WaitClass *wait_class = ticket->wait_class;
    if (rule(wait_class != NULL, "GATE-3") < 0) {
        return -1;
    }
    int failed = 0;
    ticket->wait_class = NULL;
    queues->length -= 1;
    law_queue_remove(&wait_class->queue, &ticket->link);
    if (wait_class->queue.length == 0) {
        queues->recent = queues->recent == wait_class ? NULL : queues->recent;
        failed = PyDict_DelItem(queues->classes, wait_class->key);
    }
    Py_DECREF((PyObject *)ticket);
    return failed;
}

/* Read the i-th pair of `overtaken`: the last place that was overtaken, and when. */
static void
read_time(PyObject *times, Py_ssize_t i, int64_t *place, int64_t *at_ns)
{
    PyObject *pair = PyList_GET_ITEM(times, i);
    *place = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 0));
    *at_ns = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
}

int
queues_let_in(QueuesCore *queues, const Ticket *ticket, int64_t now_ns)
{
    Py_ssize_t at = 0;
    PyObject *value;
    while (PyDict_Next(queues->classes, &at, NULL, &value)) {
        WaitClass *wait_class = (WaitClass *)value;
        Py_ssize_t n = PyList_GET_SIZE(wait_class->overtaken);
        int64_t place = 0, before_ns;
        if (n > 0) {
            read_time(wait_class->overtaken, n - 1, &place, &before_ns);
        }
        if (wait_class->priority >= ticket->priority ||
            place >= wait_class_last(wait_class)->place) { /* all of them were overtaken before */
            continue;
        }
        Py_INCREF(value); /* RECORD-3: an allocation could start a collection */
        PyObject *time = Py_BuildValue("LL", (long long)queues->entered, (long long)now_ns);
        int failed = time == NULL ? -1 : PyList_Append(wait_class->overtaken, time);
        Py_XDECREF(time);
        Py_DECREF(value);
        if (failed < 0) {
            return -1;
        }
    }
    return 0;
}

int64_t
queues_starved_ns(const Ticket *ticket, int64_t now_ns)
{
    PyObject *times = ticket->wait_class == NULL ? NULL : ticket->wait_class->overtaken;
    Py_ssize_t low = 0, n = times == NULL ? 0 : PyList_GET_SIZE(times), high = n;
    int64_t place, at_ns = now_ns;
    while (low < high) { /* find the first pair whose place is not before the ticket */
        Py_ssize_t middle = (low + high) / 2;
        read_time(times, middle, &place, &at_ns);
        if (place < ticket->place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == n) {
        return 0;
    }
    read_time(times, low, &place, &at_ns);
    return now_ns - at_ns;
}

/* ---- for Python */

/* QueuesCore(interval_ns, boost) */
static int
queues_init(QueuesCore *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    long long interval_ns, boost;
    if (!PyArg_ParseTuple(args, "LL:QueuesCore", &interval_ns, &boost)) {
        return -1;
    }
    if (interval_ns < 1 && boost != 0) {
        PyErr_SetString(PyExc_ValueError, "QueuesCore() takes an interval of at least one nanosecond");
        return -1;
    }
    self->interval_ns = interval_ns;
    self->boost = boost;
    self->recent = NULL;
    Py_XSETREF(self->classes, PyDict_New());
    return self->classes == NULL ? -1 : 0;
}

static int
queues_traverse(QueuesCore *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->classes);
    return 0;
}

static int
queues_clear(QueuesCore *self)
{
    self->recent = NULL;
    Py_CLEAR(self->classes);
    return 0;
}

static void
queues_dealloc(QueuesCore *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    queues_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t
queues_length(QueuesCore *self)
{
    return (Py_ssize_t)self->length;
}

/* The ticket and, with `wanted` 2, the time from the arguments of a method. NULL with an exception set: they are
 * wrong. */
static Ticket *
read_args(QueuesCore *self, PyObject *const *args, Py_ssize_t n, Py_ssize_t wanted, ModuleState **st, int64_t *now_ns)
{
    *st = state_of(Py_TYPE(self));
    if (*st == NULL || n != wanted || Py_TYPE(args[0]) != (*st)->Ticket || self->classes == NULL) {
        PyErr_SetString(PyExc_TypeError, "the first argument must be a ticket of the native kernel");
        return NULL;
    }
    *now_ns = n > 1 ? PyLong_AsLongLong(args[1]) : 0;
    return *now_ns == -1 && PyErr_Occurred() ? NULL : (Ticket *)args[0];
}

static PyObject *
queues_py_enter(QueuesCore *self, PyObject *const *args, Py_ssize_t n)
{
    ModuleState *st;
    int64_t unused;
    Ticket *ticket = read_args(self, args, n, 1, &st, &unused);
    int first = ticket == NULL ? -1 : queues_enter(st, self, ticket);
    return first < 0 ? NULL : PyBool_FromLong(first);
}

static PyObject *
queues_py_leave(QueuesCore *self, PyObject *const *args, Py_ssize_t n)
{
    ModuleState *st;
    int64_t unused;
    Ticket *ticket = read_args(self, args, n, 1, &st, &unused);
    return ticket == NULL || queues_leave(self, ticket) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
queues_py_let_in(QueuesCore *self, PyObject *const *args, Py_ssize_t n)
{
    ModuleState *st;
    int64_t now_ns;
    Ticket *ticket = read_args(self, args, n, 2, &st, &now_ns);
    return ticket == NULL || queues_let_in(self, ticket, now_ns) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
queues_py_starved_ns(QueuesCore *self, PyObject *const *args, Py_ssize_t n)
{
    ModuleState *st;
    int64_t now_ns;
    Ticket *ticket = read_args(self, args, n, 2, &st, &now_ns);
    return ticket == NULL ? NULL : PyLong_FromLongLong(queues_starved_ns(ticket, now_ns));
}

static PyMethodDef queues_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))queues_py_enter, METH_FASTCALL,
     "Add a ticket. Returns whether it is the first of its class."},
    {"leave", (PyCFunction)(void (*)(void))queues_py_leave, METH_FASTCALL, "Take a ticket out."},
    {"let_in", (PyCFunction)(void (*)(void))queues_py_let_in, METH_FASTCALL,
     "A ticket is admitted: note that the waiting tickets of lower priority were overtaken."},
    {"starved_ns", (PyCFunction)(void (*)(void))queues_py_starved_ns, METH_FASTCALL,
     "How long the ticket has waited since it was first overtaken."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef queues_members[] = {
    {"classes", T_OBJECT, offsetof(QueuesCore, classes), READONLY, NULL},
    {"interval_ns", T_LONGLONG, offsetof(QueuesCore, interval_ns), READONLY, NULL},
    {"boost", T_LONGLONG, offsetof(QueuesCore, boost), READONLY, NULL},
    {"entered", T_LONGLONG, offsetof(QueuesCore, entered), READONLY, NULL},
    {"length", T_LONGLONG, offsetof(QueuesCore, length), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot queues_slots[] = {
    {Py_tp_doc, "All tickets that wait for permission only, by class."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, queues_init},
    {Py_tp_traverse, queues_traverse},
    {Py_tp_clear, queues_clear},
    {Py_tp_dealloc, queues_dealloc},
    {Py_tp_methods, queues_methods},
    {Py_tp_members, queues_members},
    {Py_sq_length, queues_length},
    {0, NULL},
};

PyType_Spec queues_spec = {
    .name = "bursar._native.QueuesCore",
    .basicsize = sizeof(QueuesCore),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = queues_slots,
};
