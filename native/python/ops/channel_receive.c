/* Receiving. After `ReceiveCore` and `Receive` in ops/channel.py. Closing and the rest of the receiving end are in the
 * Python class that derives from this type. Like a Send, a Receive comes from a free list.
 */

#include "python/ops/channel_receive.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_wake.h"
#include "python/law/wait.h"
#include "python/law/waitlist.h"
#include "python/module/seam.h"
#include "python/ops/channel.h"
#include "python/ops/channel_buffer.h"
#include "python/ops/channel_end.h"
#include "python/ops/channel_send.h"
#include "python/ops/request.h"
#include "law/generated/docstrings.h"

static const RequestVT receive_vt;

/* A request of type Receive or Next, which differ only in what they raise at the end. NULL with MemoryError set. */
static PyObject *
receive_of(ChannelEnd *end, PyTypeObject *type, FreeList *free)
{
    Receive *self = (Receive *)free_take(free, type);
    if (self == NULL && (self = PyObject_GC_New(Receive, type)) == NULL) {
        return NULL;
    }
    self->request.vt = &receive_vt;
    self->request.step = REQUEST_NEW;
    self->end = (ChannelEnd *)Py_NewRef(end);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *
receive_make(ChannelEnd *end, PyObject *Py_UNUSED(unused))
{
    ModuleState *st = end->channel->st;
    return receive_of(end, st->Receive, &st->free_receives);
}

/* The request of one step of `async for`. */
static PyObject *
next_make(ChannelEnd *end)
{
    ModuleState *st = end->channel->st;
    return receive_of(end, st->Next, &st->free_nexts);
}

/* Receive(end). */
static PyObject *
receive_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"end", NULL};
    ModuleState *st = state_of(type);
    PyObject *end;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Receive", names, st->ReceiveEnd, &end)) {
        return NULL;
    }
    return receive_make((ChannelEnd *)end, NULL);
}

static int
receive_traverse(Receive *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->end);
    return 0;
}

static void
receive_dealloc(Receive *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    request_check_used(&self->request);
    ModuleState *st = state_left(type);
    Py_CLEAR(self->end);
    if (st == NULL || !free_give(type == st->Next ? &st->free_nexts : &st->free_receives, (PyObject *)self)) {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* Whether the oldest waiter on the other side has a value to give; a reservation has none yet. */
static bool
sender_waits(Channel *channel)
{
    PyObject *waiter = waitlist_oldest(channel->senders);
    PyObject *operation = waiter == NULL ? NULL : waiter_operation(channel->st, waiter);
    return operation != NULL && Py_IS_TYPE(operation, channel->st->Send);
}

/* Whether `receive_get` need not wait: it has a value, or raises at once. */
static bool
receive_possible(const Receive *self)
{
    Channel *channel = self->end->channel;
    return !self->end->open || channel->buffer.length > 0 || (channel->send_ends == 0 && channel->reserved == 0) ||
           sender_waits(channel);
}

/* Take the value of the sender that has waited longest, and wake that sender. */
static PyObject *
take_from_sender(Channel *channel)
{
    Kernel *k = channel_live(channel);
    if (k == NULL) {
        return NULL;
    }
    PyObject *waiter = waitlist_take(channel->senders);
    PyObject *value = Py_NewRef(((Send *)waiter_operation(channel->st, waiter))->value);
    if (k_answer(k, waiter, Py_None) < 0) {
        Py_CLEAR(value);
    }
    Py_DECREF(waiter);
    return value;
}

/* The next value. NULL with an exception set: the channel is closed and empty, or this end is closed. */
static PyObject *
receive_get(Receive *self, PyObject *Py_UNUSED(unused))
{
    Channel *channel = self->end->channel;
    if (!self->end->open) {
        return channel_refuse(channel, "closed_here", NULL);
    }
    if (channel->buffer.length > 0) {
        PyObject *value = channel_buffer_take(&channel->buffer);
        if ((channel_refill(channel) < 0 || channel_close_if_unused(channel) < 0) &&
            (channel->kernel == NULL || k_defer_error(channel->kernel) < 0)) {
            /* Only if no task ever waited on the channel. Otherwise the error is deferred, and the value is kept. */
            Py_CLEAR(value);
        }
        return value;
    }
    if (sender_waits(channel)) {
        return take_from_sender(channel);
    }
    return channel_refuse(channel, "closed_to", "every sending end is closed, and every value was received");
}

static int
receive_ready(Kernel *k, Task *task, Request *request)
{
    Receive *self = (Receive *)request;
    return channel_bind(self->end->channel, k, task) < 0 ? -1 : receive_possible(self);
}

static PyObject *
receive_take(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *request)
{
    return receive_get((Receive *)request, NULL);
}

static int
receive_enlist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    ChannelEnd *end = ((Receive *)request)->end;
    end->waiting = 1;
    waitlist_join(end->channel->receivers, waiter);
    return 0;
}

/* A reservation may have waited for a receiver. */
static int
receive_enlisted(Kernel *Py_UNUSED(k), Request *request)
{
    return channel_refill(((Receive *)request)->end->channel);
}

static int
receive_delist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    waitlist_leave(((Receive *)request)->end->channel->receivers, waiter);
    return 0;
}

static Kernel *
receive_ready_now_in(const Request *request)
{
    const ChannelEnd *end = ((const Receive *)request)->end;
    return end->open && end->channel->buffer.length > 0 ? end->channel->kernel : NULL;
}

static const RequestVT receive_vt = {
    .cost = LAW_ROW_CHANNEL,
    .ready = receive_ready,
    .take = receive_take,
    .enlist = receive_enlist,
    .enlisted = receive_enlisted,
    .delist = receive_delist,
    .ready_now_in = receive_ready_now_in,
};

static PyObject *
receive_why(Receive *self, PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromFormat("waits to receive from %S", self->end->channel);
}

static PyObject *
receive_py_possible(Receive *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(receive_possible(self));
}

static PyMethodDef receive_methods[] = {
    {"why", (PyCFunction)receive_why, METH_NOARGS, "What a task does that waits for this."},
    {"possible", (PyCFunction)receive_py_possible, METH_NOARGS, "Whether `get` would not have to wait."},
    {"get", (PyCFunction)receive_get, METH_NOARGS, "The next value now."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Receive[T]"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef receive_members[] = {
    {"end", T_OBJECT_EX, offsetof(Receive, end), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot receive_slots[] = {
    {Py_tp_doc, "The request behind `ReceiveEnd.receive`."},
    {Py_tp_new, receive_new},
    {Py_tp_traverse, receive_traverse},
    {Py_tp_dealloc, receive_dealloc},
    {Py_tp_methods, receive_methods},
    {Py_tp_members, receive_members},
    {Py_am_send, request_send}, /* which is not inherited */
    {0, NULL},
};

PyType_Spec receive_spec = {
    .name = "bursar.ops.channel.Receive",
    .basicsize = sizeof(Receive),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = receive_slots,
};

/* ---- Next: a Receive as one step of `async for` */

/* An error at the await point. ChannelClosed of a channel that is closed and empty ends the loop. */
static PyObject *
next_throw(Receive *self, PyObject *const *args, Py_ssize_t n)
{
    PyObject *closed = py_require(self->end->channel->st, PY_ChannelClosed);
    PyObject *thrown = closed == NULL ? NULL : thrown_of(args, n);
    if (thrown == NULL) {
        return NULL;
    }
    if (self->end->open && PyErr_GivenExceptionMatches(thrown, closed)) {
        Py_DECREF(thrown);
        PyErr_SetNone(PyExc_StopAsyncIteration);
    } else {
        PyErr_SetRaisedException(thrown);
    }
    return NULL;
}

static PyMethodDef next_methods[] = {
    {"throw", (PyCFunction)(void (*)(void))next_throw, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot next_slots[] = {
    {Py_tp_doc, "A step of `async for` over the receiving end of a channel."},
    {Py_tp_traverse, receive_traverse},
    {Py_tp_dealloc, receive_dealloc},
    {Py_tp_methods, next_methods},
    {Py_am_send, request_send},
    {0, NULL},
};

PyType_Spec next_spec = {
    .name = "bursar._native.Next",
    .basicsize = sizeof(Receive),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = next_slots,
};

/* ---- the receiving end */

static PyMethodDef receive_end_methods[] = {
    {"receive", (PyCFunction)receive_make, METH_NOARGS, "receive($self, /)\n--\n\n" DOC_ReceiveCore_receive},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot receive_end_slots[] = {
    {Py_tp_doc, "What the receiving end of a channel does at every message."},
    {Py_am_aiter, PyObject_SelfIter},
    {Py_am_anext, next_make},
    {Py_tp_traverse, channel_end_traverse},
    {Py_tp_dealloc, channel_end_dealloc},
    {Py_tp_methods, receive_end_methods},
    {0, NULL},
};

PyType_Spec receive_end_spec = {
    .name = "bursar.ops.channel.ReceiveCore",
    .basicsize = sizeof(ChannelEnd),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = receive_end_slots,
};
