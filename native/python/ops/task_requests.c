/* Requests about tasks: `checkpoint` lets other tasks run, Join waits for the children of a nursery, Ended waits for
 * the end of one task. After ops/task.py and ops/nursery.py.
 */

#include "python/ops/task_requests.h"
#include "python/law/dispatch_wake.h"
#include "python/law/nursery.h"
#include "python/law/task.h"
#include "python/law/waitlist.h"
#include "python/module/names_from_python.h"
#include "python/module/seam.h"
#include "python/ops/request.h"

/* ---- Checkpoint */

static PyObject *
checkpoint_perform(Kernel *k, Task *task, Request *Py_UNUSED(self))
{
    return request_suspended(k, k_yielded(k, task));
}

static const RequestVT checkpoint_vt = {.cost = LAW_ROW_OP, .quiet = true, .perform = checkpoint_perform};

static PyType_Slot bare_slots[] = {
    {Py_am_send, request_send},
    {Py_tp_doc, "Pay one op and let the others run."},
    {Py_tp_traverse, request_traverse},
    {Py_tp_dealloc, request_dealloc},
    {0, NULL},
};

PyType_Spec checkpoint_spec = {
    .name = "bursar._native.Checkpoint",
    .basicsize = sizeof(Request),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = bare_slots,
};

Request *
checkpoint_new(ModuleState *st)
{
    Request *self = (Request *)st->Checkpoint->tp_alloc(st->Checkpoint, 0);
    if (self != NULL) {
        self->vt = &checkpoint_vt;
        self->step = REQUEST_USED; /* all calls return this one, so it cannot show that one of them was forgotten */
    }
    return self;
}

/* METH_FASTCALL, because the interpreter calls it in fewer instructions than METH_NOARGS. */
PyObject *
checkpoint_ask(PyObject *module, PyObject *const *Py_UNUSED(args), Py_ssize_t n)
{
    if (n != 0) {
        PyErr_Format(PyExc_TypeError, "checkpoint() takes no arguments (%zd given)", n);
        return NULL;
    }
    return Py_NewRef(((ModuleState *)PyModule_GetState(module))->checkpoint);
}

/* ---- requests with one record */

typedef struct RecordRequest {
    Request request;
    PyObject *record;
} RecordRequest;

static int
record_request_traverse(RecordRequest *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->record);
    return 0;
}

static int
record_request_clear(RecordRequest *self)
{
    Py_CLEAR(self->record);
    return 0;
}

static void
record_request_dealloc(RecordRequest *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    request_check_used(&self->request);
    record_request_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
record_request_make(PyTypeObject *type, const RequestVT *vt, PyTypeObject *of, PyObject *args)
{
    PyObject *record;
    if (!PyArg_ParseTuple(args, "O!", of, &record)) {
        return NULL;
    }
    RecordRequest *self = (RecordRequest *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->request.vt = vt;
        self->record = Py_NewRef(record);
    }
    return (PyObject *)self;
}

/* The reason of the wait, which a function in Python writes. */
static PyObject *
record_request_why(RecordRequest *self, PyName sentence)
{
    PyObject *args[] = {self->record};
    return py_call(state_of(Py_TYPE(self)), sentence, args, 1);
}

/* ---- Join: wait until no child lives. It costs nothing, because an empty purse must not keep a block from ending.
 * The exit of a block in C does not use it: see nursery_exit.c. */

static int
join_ready(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *self)
{
    return nursery_quiet((Nursery *)((RecordRequest *)self)->record);
}

static int
join_enlist(Kernel *Py_UNUSED(k), Request *self, PyObject *waiter)
{
    nursery_join((Nursery *)((RecordRequest *)self)->record, waiter);
    return 0;
}

static int
join_delist(Kernel *Py_UNUSED(k), Request *self, PyObject *waiter)
{
    nursery_unjoin((Nursery *)((RecordRequest *)self)->record, waiter);
    return 0;
}

static const RequestVT join_vt = {
    .cost = {.n = 0},
    .quiet = true,
    .ready = join_ready,
    .take = request_take_nothing,
    .enlist = join_enlist,
    .delist = join_delist,
};

static PyObject *
join_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(type);
    return st == NULL ? NULL : record_request_make(type, &join_vt, st->Nursery, args);
}

static PyObject *
join_why(RecordRequest *self, PyObject *Py_UNUSED(unused))
{
    return record_request_why(self, PY_why_join);
}

static PyObject *
join_blockers(RecordRequest *self, PyObject *Py_UNUSED(unused))
{
    return nursery_children_list((Nursery *)self->record);
}

static PyMethodDef join_methods[] = {
    {"why", (PyCFunction)join_why, METH_NOARGS, NULL},
    {"blockers", (PyCFunction)join_blockers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot join_slots[] = {
    {Py_am_send, request_send},
    {Py_tp_doc, "Wait until no child lives."},
    {Py_tp_new, join_make},
    {Py_tp_traverse, record_request_traverse},
    {Py_tp_clear, record_request_clear},
    {Py_tp_dealloc, record_request_dealloc},
    {Py_tp_methods, join_methods},
    {0, NULL},
};

PyType_Spec join_spec = {
    .name = "bursar._native._Join",
    .basicsize = sizeof(RecordRequest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = join_slots,
};

/* ---- Ended: wait for the end of a task */

static int
ended_ready(Kernel *k, Task *task, Request *self)
{
    Task *record = (Task *)((RecordRequest *)self)->record;
    bool over = record->state == LAW_STATE_DONE;
    bool here =
        record->nursery != NULL && task_kernel(record) == k; /* no nursery: its run was dropped before its end */
    if (task == record || (!over && !here)) {
        PyObject *args[] = {(PyObject *)record, (PyObject *)task};
        PyObject *none = py_call(k->st, PY_refuse_await, args, 2); /* raises ScopeMisuse */
        Py_XDECREF(none);
        return -1;
    }
    return over;
}

static PyObject *
ended_take(Kernel *k, Task *Py_UNUSED(task), Request *self)
{
    Task *record = (Task *)((RecordRequest *)self)->record;
    if (record->kind == LAW_OUTCOME_DROPPED) {
        PyObject *args[] = {(PyObject *)record};
        PyObject *none = py_call(k->st, PY_read_drop, args, 1);
        if (none == NULL) {
            return NULL;
        }
        Py_DECREF(none);
    }
    return task_outcome(k->st, record);
}

static int
ended_enlist(Kernel *k, Request *self, PyObject *waiter)
{
    TaskExtra *extra = task_extra((Task *)((RecordRequest *)self)->record);
    if (extra == NULL) {
        return -1;
    }
    if (extra->waiters == NULL && (extra->waiters = (PyObject *)waitlist_new(k->st)) == NULL) {
        return -1;
    }
    waitlist_join((WaitList *)extra->waiters, waiter);
    return 0;
}

static int
ended_delist(Kernel *Py_UNUSED(k), Request *self, PyObject *waiter)
{
    Task *record = (Task *)((RecordRequest *)self)->record;
    if (record != NULL && record->extra != NULL && record->extra->waiters != NULL) {
        waitlist_leave((WaitList *)record->extra->waiters, waiter);
    }
    return 0;
}

static const RequestVT ended_vt = {
    .cost = LAW_ROW_OP,
    .ready = ended_ready,
    .take = ended_take,
    .enlist = ended_enlist,
    .delist = ended_delist,
};

static PyObject *
ended_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(type);
    return st == NULL ? NULL : record_request_make(type, &ended_vt, st->Task, args);
}

static PyObject *
ended_why(RecordRequest *self, PyObject *Py_UNUSED(unused))
{
    return record_request_why(self, PY_why_ended);
}

static PyObject *
ended_blockers(RecordRequest *self, PyObject *Py_UNUSED(unused))
{
    return PyTuple_Pack(1, self->record);
}

static PyMethodDef ended_methods[] = {
    {"why", (PyCFunction)ended_why, METH_NOARGS, NULL},
    {"blockers", (PyCFunction)ended_blockers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ended_slots[] = {
    {Py_am_send, request_send},
    {Py_tp_doc, "Wait for the end of a task."},
    {Py_tp_new, ended_make},
    {Py_tp_traverse, record_request_traverse},
    {Py_tp_clear, record_request_clear},
    {Py_tp_dealloc, record_request_dealloc},
    {Py_tp_methods, ended_methods},
    {0, NULL},
};

PyType_Spec ended_spec = {
    .name = "bursar._native._Ended",
    .basicsize = sizeof(RecordRequest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = ended_slots,
};
