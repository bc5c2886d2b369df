/* Handles: what every spawn does with the `Task` and the `Nursery` that a user holds. After ops/task.py and
 * ops/nursery.py.
 *
 * `bursar.Task` is this type; Python adds its other methods to it (seam.c). Rejected: a class in Python that derives
 * from it. CPython makes and frees such an object by general functions, which cost more than a whole spawn. A plain
 * `spawn` is done here and in gate_spawn.c, any other spawn by the Python method `_spawn`.
 */

#include "python/ops/handle.h"
#include "python/law/observer.h"
#include "python/module/seam.h"
#include "python/ops/gate_spawn.h"
#include "python/ops/handle_fast.h"
#include "law/generated/docstrings.h"

static int
handle_traverse(Handle *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->record);
    return 0;
}

static int
handle_clear(Handle *self)
{
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->record);
    return 0;
}

/* Free the handle, or keep it in `list`. NULL: its type is a derived one, or the module is gone. */
static void
handle_drop(Handle *self, FreeList *list)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    handle_clear(self);
    if (list != NULL) {
        free_drop(list, (PyObject *)self);
        return;
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static void
task_handle_dealloc(Handle *self)
{
    ModuleState *st = state_left(Py_TYPE(self));
    handle_drop(self, st ? &st->free_handles : NULL);
}

static void
nursery_handle_dealloc(Handle *self)
{
    ModuleState *st = state_left(Py_TYPE(self));
    handle_drop(self, st ? &st->free_nursery_handles : NULL);
}

/* Read (kernel, record). 0, or -1 with TypeError set. */
static int
handle_set(Handle *self, PyObject *args, PyTypeObject *(*of)(ModuleState *))
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *kernel, *record;
    if (st == NULL || !PyArg_ParseTuple(args, "O!O!", st->Kernel, &kernel, of(st), &record)) {
        return -1;
    }
    gc_aside_show_one((PyObject *)self); /* tracked: the record may refer to anything */
    Py_XSETREF(self->kernel, (Kernel *)Py_NewRef(kernel));
    Py_XSETREF(self->record, Py_NewRef(record));
    return 0;
}

static PyTypeObject *
tasks(ModuleState *st)
{
    return st->Task;
}

static PyTypeObject *
nurseries(ModuleState *st)
{
    return st->Nursery;
}

static int
task_handle_init(Handle *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return handle_set(self, args, tasks);
}

static int
nursery_handle_init(Handle *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return handle_set(self, args, nurseries);
}

static PyMemberDef handle_members[] = {
    {"_kernel", T_OBJECT, offsetof(Handle, kernel), READONLY, NULL},
    {"_record", T_OBJECT, offsetof(Handle, record), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* ---- task.result */

static PyObject *
task_handle_result(Handle *self, void *Py_UNUSED(closure))
{
    Task *task = (Task *)self->record;
    if (task == NULL) {
        PyErr_SetString(PyExc_AttributeError, "this handle was made without a task");
        return NULL;
    }
    if (task->state == LAW_STATE_DONE && task->kind == LAW_OUTCOME_OK && !task->whole) {
        return Py_NewRef(task->work ? task->work : Py_None);
    }
    PyObject *args[] = {(PyObject *)self};
    return py_call(self->kernel->st, PY_result_of, args, 1);
}

static PyGetSetDef task_handle_getset[] = {
    {"result", (getter)task_handle_result, NULL, DOC_Task_result, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- spawn */

/* A spawn was refused. If a capability was missing, the observer gets an event. Always NULL. */
static PyObject *
spawn_refused(Kernel *k)
{
    if (k->observer != NULL && PyErr_ExceptionMatches(k->st->CapabilityDenied)) {
        PyObject *denied = PyErr_GetRaisedException();
        int failed = k_note(k, "capability_denied", k->current, Py_NewRef(denied));
        if (failed < 0) {
            Py_DECREF(denied);
            return NULL;
        }
        PyErr_SetRaisedException(denied);
    }
    return NULL;
}

static PyObject *
nursery_handle_spawn(Handle *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PyObject *handle = NULL;
    bool coroutine, tasks;
    if (is_plain_handle_spawn(self, args, n, &coroutine, &tasks)) {
        Nursery *nursery = (Nursery *)self->record;
        bool asks =
            !coroutine || tasks || nursery->gate != NULL || (keywords != NULL && PyTuple_GET_SIZE(keywords) > 0);
        handle = asks ? ask_fast(self->kernel, nursery, args, n, keywords, coroutine)
                      : handle_spawn_fast(self->kernel, nursery, args, n);
        if (handle == NULL && PyErr_Occurred()) {
            return spawn_refused(self->kernel);
        }
    }
    if (handle == NULL) {
        PyObject *slow = PyObject_GetAttrString((PyObject *)self, "_spawn");
        handle = slow == NULL ? NULL : PyObject_Vectorcall(slow, args, (size_t)n, keywords);
        Py_XDECREF(slow);
    }
    return handle;
}

/* The signature of `_spawn` in ops/nursery.py, for `inspect`, which looks up names in the loaded modules. */
PyDoc_STRVAR(spawn_doc,
             "spawn($self, /, fn, *args, name=None, budget=None, capabilities=None, priority=bursar.Priority.NORMAL, "
             "after=(), needs=None, retry=None)\n--\n\n" DOC_Nursery_spawn);

static PyMethodDef nursery_handle_methods[] = {
    {"spawn", (PyCFunction)(void (*)(void))nursery_handle_spawn, METH_FASTCALL | METH_KEYWORDS, spawn_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- types */

enum { HANDLE_SIZE = NUMEROUS_SIZE_MIN - sizeof(GcHead) }; /* more than a handle needs */
_Static_assert((size_t)HANDLE_SIZE >= sizeof(Handle), "a handle fits");

static PyMethodDef task_handle_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot task_handle_slots[] = {
    {Py_tp_doc, "Task(kernel, record)\n--\n\n" DOC_Task},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, task_handle_init},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_dealloc, task_handle_dealloc},
    {Py_tp_methods, task_handle_methods},
    {Py_tp_getset, task_handle_getset},
    {Py_tp_members, handle_members},
    {0, NULL},
};

PyType_Spec task_handle_spec = {
    .name = "bursar.ops.task.Task",
    .basicsize = HANDLE_SIZE,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = task_handle_slots,
};

static PyType_Slot nursery_handle_slots[] = {
    {Py_tp_doc, "Nursery(kernel, record)\n--\n\n" DOC_Nursery},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, nursery_handle_init},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_dealloc, nursery_handle_dealloc},
    {Py_tp_methods, nursery_handle_methods},
    {Py_tp_members, handle_members},
    {0, NULL},
};

PyType_Spec nursery_handle_spec = {
    .name = "bursar.ops.nursery.Nursery",
    .basicsize = HANDLE_SIZE,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = nursery_handle_slots,
};
