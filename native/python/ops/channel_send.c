/* Sending. After `SendCore` and `Send` in ops/channel.py. Reservations, closing and the rest of the sending end are in
 * the Python class that derives from this type.
 *
 * A `Send` only describes what to send: the value and the end. Any task may await it, more than once. Every message
 * makes and drops a Send, so they come from a free list.
 */

#include "python/ops/channel_send.h"
#include "python/law/waitlist.h"
#include "python/ops/channel.h"
#include "python/ops/channel_end.h"
#include "python/ops/request.h"
#include "law/generated/docstrings.h"

static const RequestVT send_vt;

/* A send of `value`. NULL with MemoryError set. */
static PyObject *
send_make(ChannelEnd *end, PyObject *value)
{
    ModuleState *st = end->channel->st;
    Send *self = (Send *)free_take(&st->free_sends, st->Send);
    if (self == NULL && (self = PyObject_GC_New(Send, st->Send)) == NULL) {
        return NULL;
    }
    self->request.vt = &send_vt;
    self->request.step = REQUEST_NEW;
    self->end = (ChannelEnd *)Py_NewRef(end);
    self->value = Py_NewRef(value);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* Send(end, value). */
static PyObject *
send_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"end", "value", NULL};
    ModuleState *st = state_of(type);
    PyObject *end, *value;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!O:Send", names, st->SendEnd, &end, &value)) {
        return NULL;
    }
    return send_make((ChannelEnd *)end, value);
}

static int
send_traverse(Send *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->end);
    Py_VISIT(self->value);
    return 0;
}

static int
send_clear(Send *self)
{
    Py_CLEAR(self->value);
    return 0;
}

static void
send_dealloc(Send *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, send_dealloc) /* a program may send a Send of a Send of … */
        request_check_used(&self->request);
    ModuleState *st = state_left(type);
    Py_CLEAR(self->value);
    Py_CLEAR(self->end);
    if (st == NULL || !free_give(&st->free_sends, (PyObject *)self)) {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
    Py_TRASHCAN_END
}

/* Whether the send need not wait: there is room, or it is refused at once. */
static int
send_ready(Kernel *k, Task *task, Request *request)
{
    ChannelEnd *end = ((Send *)request)->end;
    if (channel_bind(end->channel, k, task) < 0) {
        return -1;
    }
    return !end->open || end->channel->receive_ends == 0 || channel_room(end->channel) > 0;
}

/* None. NULL with ChannelClosed set: one side is closed. */
static PyObject *
send_take(Kernel *Py_UNUSED(k), Task *task, Request *request)
{
    Send *self = (Send *)request;
    ChannelEnd *end = self->end;
    if (!end->open || end->channel->receive_ends == 0) {
        PyObject *checked = PyObject_CallMethod((PyObject *)end, "_check", NULL); /* raises the right error */
        if (checked == NULL) {
            return NULL;
        }
        Py_DECREF(checked);
    }
    if (channel_accept(end->channel, self->value, task) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static int
send_enlist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    ChannelEnd *end = ((Send *)request)->end;
    end->waiting = 1;
    waitlist_join(end->channel->senders, waiter);
    return 0;
}

static int
send_delist(Kernel *Py_UNUSED(k), Request *request, PyObject *waiter)
{
    waitlist_leave(((Send *)request)->end->channel->senders, waiter);
    return 0;
}

static Kernel *
send_ready_now_in(const Request *request)
{
    const ChannelEnd *end = ((const Send *)request)->end;
    bool can = end->open && end->channel->receive_ends > 0 && channel_room(end->channel) > 0;
    return can ? end->channel->kernel : NULL;
}

static const RequestVT send_vt = {
    .cost = LAW_ROW_CHANNEL,
    .ready = send_ready,
    .take = send_take,
    .enlist = send_enlist,
    .delist = send_delist,
    .ready_now_in = send_ready_now_in,
};

static PyObject *
send_why(Send *self, PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromFormat("waits to send to %S", self->end->channel);
}

static PyMethodDef send_methods[] = {
    {"why", (PyCFunction)send_why, METH_NOARGS, "What a task does that waits for this."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Send[T]"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef send_members[] = {
    {"end", T_OBJECT_EX, offsetof(Send, end), READONLY, NULL},
    {"value", T_OBJECT_EX, offsetof(Send, value), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot send_slots[] = {
    {Py_tp_doc, "The request behind `SendEnd.send`."},
    {Py_tp_new, send_new},
    {Py_tp_traverse, send_traverse},
    {Py_tp_clear, send_clear},
    {Py_tp_dealloc, send_dealloc},
    {Py_tp_methods, send_methods},
    {Py_tp_members, send_members},
    {Py_am_send, request_send}, /* which is not inherited */
    {0, NULL},
};

PyType_Spec send_spec = {
    .name = "bursar.ops.channel.Send",
    .basicsize = sizeof(Send),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = send_slots,
};

/* ---- the sending end */

/* send(value), or send(value=value). */
static PyObject *
send_end_send(ChannelEnd *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool named = names != NULL && PyTuple_GET_SIZE(names) == 1;
    if (n + (names == NULL ? 0 : PyTuple_GET_SIZE(names)) != 1 ||
        (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "value") != 0)) {
        PyErr_SetString(PyExc_TypeError, "send() takes one argument, the value to send");
        return NULL;
    }
    return send_make(self, args[0]);
}

static PyMethodDef send_end_methods[] = {
    {"send", (PyCFunction)(void (*)(void))send_end_send, METH_FASTCALL | METH_KEYWORDS,
     "send($self, value)\n--\n\n" DOC_SendCore_send},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot send_end_slots[] = {
    {Py_tp_doc, "What the sending end of a channel does at every message."},
    {Py_tp_traverse, channel_end_traverse},
    {Py_tp_dealloc, channel_end_dealloc},
    {Py_tp_methods, send_end_methods},
    {0, NULL},
};

PyType_Spec send_end_spec = {
    .name = "bursar.ops.channel.SendCore",
    .basicsize = sizeof(ChannelEnd),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = send_end_slots,
};
