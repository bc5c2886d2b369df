/* What both ends of a channel have in common. After `EndCore` in src/bursar/ops/channel.py. */

#include "python/ops/channel_end.h"
#include "python/ops/channel.h"

/* EndCore(channel), for either side. */
static PyObject *
channel_end_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"channel", NULL};
    ModuleState *st = state_of(type);
    PyObject *channel;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!:EndCore", names, st->Channel, &channel)) {
        return NULL;
    }
    ChannelEnd *self = (ChannelEnd *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->channel = (Channel *)Py_NewRef(channel);
        self->open = 1;
    }
    return (PyObject *)self;
}

/* `channel_end_new` has done everything; subclasses call this with the same arguments. */
static int
channel_end_init(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    return 0;
}

int
channel_end_traverse(ChannelEnd *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->channel);
    return 0;
}

void
channel_end_dealloc(ChannelEnd *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->channel);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef channel_end_members[] = {
    {"_channel", T_OBJECT_EX, offsetof(ChannelEnd, channel), READONLY, NULL},
    {"_open", T_BOOL, offsetof(ChannelEnd, open), 0, NULL},
    {"_waiting", T_BOOL, offsetof(ChannelEnd, waiting), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef channel_end_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "EndCore[T]"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot channel_end_slots[] = {
    {Py_tp_doc, "What an end of a channel knows."},
    {Py_tp_new, channel_end_new},
    {Py_tp_init, channel_end_init},
    {Py_tp_traverse, channel_end_traverse},
    {Py_tp_dealloc, channel_end_dealloc},
    {Py_tp_members, channel_end_members},
    {Py_tp_methods, channel_end_methods},
    {0, NULL},
};

PyType_Spec channel_end_spec = {
    .name = "bursar.ops.channel.EndCore",
    .basicsize = sizeof(ChannelEnd),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = channel_end_slots,
};
