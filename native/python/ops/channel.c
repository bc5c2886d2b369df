/* The state that both ends of a channel share, and what every message does to it. After `ChannelCore` in
 * src/bursar/ops/channel.py, which states CHANNEL-1 to CHANNEL-3. The rest of a channel (its first use, its closing,
 * the texts of its errors) is in the Python class that derives from this type.
 *
 * A task that sends or receives waits bare; a reservation and a case of a select wait by an entry. Both are in the same
 * queues. A reservation is written in Python: `grant` is called to serve it.
 *
 * The references from a channel to its queues, and from ends and operations to their channel, are never cleared. Every
 * cycle through them also passes through a buffer, a wait list or a kernel, and the collector breaks it there.
 */

#include "python/ops/channel.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_wake.h"
#include "python/law/task.h"
#include "python/law/wait.h"
#include "python/law/waitlist.h"
#include "python/ops/channel_buffer.h"
#include "python/ops/channel_send.h"

#define PLACES_MAX (INT64_MAX / 4) /* a sum of a few of these does not overflow; no memory holds so many values */

Kernel *
channel_live(Channel *channel)
{
    if (channel->kernel == NULL) {
        PyErr_SetString(PyExc_AssertionError, "only a bound channel has waiters");
    }
    return channel->kernel;
}

PyObject *
channel_refuse(Channel *channel, const char *method, const char *argument)
{
    PyObject *error = PyObject_CallMethod((PyObject *)channel, method, argument == NULL ? NULL : "s", argument);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

/* The result of a method in Python that returns None. 0, or -1 with an exception set. */
static int
call(PyObject *result)
{
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

int
channel_bind(Channel *channel, Kernel *k, Task *task)
{
    if (channel->kernel == k) {
        return 0;
    }
    return call(PyObject_CallMethod((PyObject *)channel, "bind", "OO", k, task));
}

/* No task may wait in vain (CHANNEL-3). While both sides have an open end, `close_if_unused` would do nothing. */
int
channel_close_if_unused(Channel *channel)
{
    if (channel->send_ends != 0 && channel->receive_ends != 0) {
        return 0;
    }
    return call(PyObject_CallMethod((PyObject *)channel, "close_if_unused", NULL));
}

/* ---- values */

/* The waiter that has waited longest to receive and is not `sender`; borrowed, or NULL. */
static PyObject *
next_receiver(const Channel *channel, const Task *sender)
{
    const LawQueue *queue = &channel->receivers->queue;
    for (LawLink *link = law_queue_oldest(queue); link != NULL; link = law_queue_newer(queue, link)) {
        if (waiter_task(waiter_of(link)) != sender) {
            return waiter_of(link);
        }
    }
    return NULL;
}

/* Accept a value that there is room for: give it to the receiver that has waited longest, otherwise put it into the
 * buffer. A task that selects both ends does not receive from itself. */
int
channel_accept(Channel *channel, PyObject *value, Task *sender)
{
    PyObject *waiter = next_receiver(channel, sender);
    if (waiter == NULL) {
        if (channel_buffer_reserve(&channel->buffer) < 0) {
            return -1;
        }
        channel_buffer_append(&channel->buffer, value);
        return 0;
    }
    Kernel *k = channel_live(channel);
    if (k == NULL) {
        return -1;
    }
    Py_INCREF(waiter);
    waitlist_leave(channel->receivers, waiter);
    int answered = k_answer(k, waiter, value);
    Py_DECREF(waiter);
    return answered;
}

/* The waiter that has waited longest to send and can be served now; borrowed, or NULL. */
static PyObject *
next_sender(const Channel *channel)
{
    bool place = channel->places > (int64_t)channel->buffer.length + channel->reserved;
    const LawQueue *queue = &channel->senders->queue;
    for (LawLink *link = law_queue_oldest(queue); link != NULL; link = law_queue_newer(queue, link)) {
        if (place || next_receiver(channel, waiter_task(waiter_of(link))) != NULL) {
            return waiter_of(link);
        }
    }
    return NULL;
}

/* Serve a waiter that was taken off the queue: accept its value, or grant its reservation. */
static int
serve(Channel *channel, Kernel *k, PyObject *waiter, PyObject *operation)
{
    Task *task = waiter_task(waiter);
    if (Py_IS_TYPE(operation, channel->st->Send)) {
        return channel_accept(channel, ((Send *)operation)->value, task) < 0 ? -1 : k_answer(k, waiter, Py_None);
    }
    PyObject *reservation = PyObject_CallMethod(operation, "grant", "OO", k, task);
    if (reservation == NULL) {
        return k_defer_error(k); /* it has left the queue, so it cannot be served again */
    }
    int answered = k_answer(k, waiter, reservation);
    Py_DECREF(reservation);
    return answered;
}

/* There may be room: serve the waiters that send, oldest first. */
int
channel_refill(Channel *channel)
{
    int served = 0;
    while (served == 0 && !waitlist_empty(channel->senders) && channel_room(channel) > 0) {
        PyObject *waiter = next_sender(channel);
        if (waiter == NULL) {
            break;
        }
        Kernel *k = channel_live(channel);
        PyObject *operation = waiter_operation(channel->st, waiter);
        assert(operation != NULL);
        if (k == NULL || channel_buffer_reserve(&channel->buffer) < 0) {
            return -1; /* before a waiter has left the queue */
        }
        Py_INCREF(waiter);
        Py_INCREF(operation); /* a bare task forgets it when it is answered */
        waitlist_leave(channel->senders, waiter);
        served = serve(channel, k, waiter, operation);
        Py_DECREF(operation);
        Py_DECREF(waiter);
    }
    return served;
}

/* ---- the type */

/* ChannelCore(capacity). NULL with TypeError or MemoryError set. */
static PyObject *
channel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"capacity", NULL};
    ModuleState *st = state_of(type);
    PyObject *capacity;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!:ChannelCore", names, &PyLong_Type, &capacity)) {
        return NULL;
    }
    int beyond;
    int64_t places = PyLong_AsLongLongAndOverflow(capacity, &beyond);
    Channel *self = (Channel *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->st = st;
    self->capacity = Py_NewRef(capacity);
    self->places = beyond > 0 || places > PLACES_MAX ? PLACES_MAX : places;
    self->senders = waitlist_new(st);
    self->receivers = self->senders == NULL ? NULL : waitlist_new(st);
    if (self->receivers == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* `channel_new` has done everything; subclasses call this with the same arguments. */
static int
channel_init(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    return 0;
}

static int
channel_traverse(Channel *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->senders);
    Py_VISIT(self->receivers);
    Py_VISIT(self->kernel);
    return channel_buffer_traverse(&self->buffer, visit, arg);
}

static int
channel_clear(Channel *self)
{
    Py_CLEAR(self->kernel);
    channel_buffer_clear(&self->buffer);
    return 0;
}

static void
channel_dealloc(Channel *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    channel_clear(self);
    Py_XDECREF(self->senders);
    Py_XDECREF(self->receivers);
    Py_XDECREF(self->capacity);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
channel_py_room(Channel *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(channel_room(self));
}

static PyObject *
channel_py_accept(Channel *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *sender = n == 2 ? args[1] : Py_None;
    if (n < 1 || n > 2 || !(sender == Py_None || is_task(sender))) {
        PyErr_SetString(PyExc_TypeError, "accept() takes a value and, if it has one, the task that sends it");
        return NULL;
    }
    if (channel_accept(self, args[0], sender == Py_None ? NULL : (Task *)sender) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
channel_py_refill(Channel *self, PyObject *Py_UNUSED(unused))
{
    if (channel_refill(self) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Take all buffered values out, as a list. If there is no memory for the list, nothing is taken. */
static PyObject *
channel_py_drain(Channel *self, PyObject *Py_UNUSED(unused))
{
    PyObject *values = PyList_New(0); /* may run the collector, and so any code: read the length afterwards */
    for (size_t i = 0; values != NULL && i < self->buffer.length; i++) {
        if (PyList_Append(values, channel_buffer_get(&self->buffer, i)) < 0) {
            Py_CLEAR(values);
        }
    }
    if (values != NULL) {
        channel_buffer_clear(&self->buffer);
    }
    return values;
}

static PyObject *
channel_buffered(Channel *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(self->buffer.length);
}

static PyObject *
channel_kernel(Channel *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->kernel == NULL ? Py_None : (PyObject *)self->kernel);
}

static int
channel_set_kernel(Channel *self, PyObject *kernel, void *Py_UNUSED(closure))
{
    if (kernel == NULL || !(kernel == Py_None || PyObject_TypeCheck(kernel, self->st->Kernel))) {
        PyErr_SetString(PyExc_TypeError, "the kernel of a channel is a native kernel, or None");
        return -1;
    }
    Kernel *before = self->kernel;
    self->kernel = kernel == Py_None ? NULL : (Kernel *)Py_NewRef(kernel);
    Py_XDECREF(before);
    return 0;
}

static PyMethodDef channel_methods[] = {
    {"room", (PyCFunction)channel_py_room, METH_NOARGS, "How many more values could be accepted now (CHANNEL-1)."},
    {"accept", (PyCFunction)(void (*)(void))channel_py_accept, METH_FASTCALL, "Take a value that there is room for."},
    {"refill", (PyCFunction)channel_py_refill, METH_NOARGS, "Serve those who wait to send, oldest first."},
    {"drain", (PyCFunction)channel_py_drain, METH_NOARGS, "Take out all that is buffered."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "ChannelCore[T]"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef channel_members[] = {
    {"capacity", T_OBJECT_EX, offsetof(Channel, capacity), READONLY, NULL},
    {"senders", T_OBJECT_EX, offsetof(Channel, senders), READONLY, NULL},
    {"receivers", T_OBJECT_EX, offsetof(Channel, receivers), READONLY, NULL},
    {"reserved", T_LONGLONG, offsetof(Channel, reserved), 0, NULL},
    {"send_ends", T_LONGLONG, offsetof(Channel, send_ends), 0, NULL},
    {"receive_ends", T_LONGLONG, offsetof(Channel, receive_ends), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef channel_getset[] = {
    {"buffered", (getter)channel_buffered, NULL, "How many values wait in the buffer.", NULL},
    {"kernel", (getter)channel_kernel, (setter)channel_set_kernel, "The kernel that uses it; None: none yet.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot channel_slots[] = {
    {Py_tp_doc, "The state that both ends of a channel share, and what happens to it at every message."},
    {Py_tp_new, channel_new},
    {Py_tp_init, channel_init},
    {Py_tp_traverse, channel_traverse},
    {Py_tp_clear, channel_clear},
    {Py_tp_dealloc, channel_dealloc},
    {Py_tp_methods, channel_methods},
    {Py_tp_members, channel_members},
    {Py_tp_getset, channel_getset},
    {0, NULL},
};

PyType_Spec channel_spec = {
    .name = "bursar.ops.channel.ChannelCore",
    .basicsize = sizeof(Channel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = channel_slots,
};
