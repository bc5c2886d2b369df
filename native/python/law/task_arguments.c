/* The arguments of a task that has not begun: its function is called with them at its first poll.
 *
 * They belong to their task alone, which shows the collector what is in them, as if it were its own (RECORD-4). So they are
 * not an object that the collector follows or counts. Rejected: a tuple, which is both; a crowd that is spawned with
 * arguments would have the collector run for as many tuples.
 */

#include "python/law/task_arguments.h"

/* One argument takes 32 bytes, where nothing stands that the collector follows; more keep away from what does. */
PyObject *
arguments_new(ModuleState *st, PyObject *const *items, Py_ssize_t n)
{
    size_t size = offsetof(Arguments, item) + (size_t)n * sizeof(PyObject *);
    Arguments *self = PyObject_Malloc(n > 1 && size < CROWD_SIZE ? CROWD_SIZE : size);
    if (self == NULL) {
        return PyErr_NoMemory();
    }
    PyObject_InitVar((PyVarObject *)self, st->Arguments, n);
    for (Py_ssize_t i = 0; i < n; i++) {
        self->item[i] = Py_NewRef(items[i]);
    }
    return (PyObject *)self;
}

void
arguments_dealloc(Arguments *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_DECREF(self->item[i]);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot arguments_slots[] = {
    {Py_tp_doc, "The arguments of a task that has not begun."},
    {Py_tp_dealloc, arguments_dealloc},
    {0, NULL},
};

PyType_Spec arguments_spec = {
    .name = "bursar._native.Arguments",
    .basicsize = offsetof(Arguments, item),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = arguments_slots,
};
