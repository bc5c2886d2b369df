/* What both ends of a channel have in common: after `EndCore` in src/bursar/channel.py. */

#include "python/ops/channel_end.h"
#include "python/ops/channel.h"

/* EndCore(channel), for either side. */
static PyObject *
end_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"channel", NULL};
    State *st = state_of(type);
    PyObject *channel;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!:EndCore", names, st->Channel, &channel)) {
        return NULL;
    }
    End *self = (End *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->channel = (Channel *)Py_NewRef(channel);
        self->open = 1;
    }
    return (PyObject *)self;
}

/* All was done by `end_new`; subclasses call this with the same arguments. */
static int
end_init(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    return 0;
}

int
end_traverse(End *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->channel);
    return 0;
}

void
end_dealloc(End *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->channel);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef end_members[] = {
    {"_channel", T_OBJECT_EX, offsetof(End, channel), READONLY, NULL},
    {"_open", T_BOOL, offsetof(End, open), 0, NULL},
    {"waiting", T_BOOL, offsetof(End, waiting), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef end_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "EndCore[T]"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot end_slots[] = {
    {Py_tp_doc, "What an end of a channel knows."},
    {Py_tp_new, end_new},
    {Py_tp_init, end_init},
    {Py_tp_traverse, end_traverse},
    {Py_tp_dealloc, end_dealloc},
    {Py_tp_members, end_members},
    {Py_tp_methods, end_methods},
    {0, NULL},
};

PyType_Spec end_spec = {
    .name = "bursar.ops.channel.EndCore",
    .basicsize = sizeof(End),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = end_slots,
};
