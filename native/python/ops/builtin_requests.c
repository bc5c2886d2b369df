/* The requests that every program makes: `checkpoint`, `sleep`, the end of a task, the end of a nursery's children.
 * After task.py, clock.py and nursery.py.
 */

#include "python/ops/builtin_requests.h"
#include "python/law/nursery.h"
#include "python/law/spawn.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/law/wait.h"
#include "python/law/waitlist.h"
#include "python/law/wake.h"
#include "python/memory/accounts.h"
#include "python/module/seam.h"
#include "python/module/seam_names.h"
#include "python/ops/request.h"

/* ---- Checkpoint */

static PyObject *
suspended(Kernel *k, int failed)
{
    return failed < 0 ? NULL : Py_NewRef(k->st->SUSPENDED);
}

static PyObject *
checkpoint_perform(Kernel *k, Task *task, Request *Py_UNUSED(self))
{
    return suspended(k, k_yielded(k, task));
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
    }
    return self;
}

/* ---- Sleep */

typedef struct Sleep {
    Request request;
    int64_t ns;
    bool absolute;
} Sleep;

static int64_t
deadline_of(const Kernel *k, const Sleep *self)
{
    return self->absolute ? self->ns : k_deadline(k, self->ns);
}

static int
sleep_ready(Kernel *k, Task *task, Request *self)
{
    if (k_capability(k, task, k->st->CapTimer, "sleep") == NULL) {
        return -1;
    }
    return deadline_of(k, (Sleep *)self) <= k->now_ns;
}

static PyObject *
nothing(Kernel *Py_UNUSED(k), Task *Py_UNUSED(task), Request *Py_UNUSED(self))
{
    Py_RETURN_NONE;
}

static int
sleep_enlist(Kernel *k, Request *self, PyObject *waiter)
{
    Timer *timer =
        timers_arm(k->st, k->timers, deadline_of(k, (Sleep *)self), LAW_TIMER_WAKE, waiter_task(waiter), NULL);
    if (timer == NULL) {
        return -1;
    }
    if (is_task(waiter)) {
        Task *task = (Task *)waiter;
        task->timer = timer;
        task->timed = 1;
    } else {
        Py_XSETREF(((Entry *)waiter)->token, (PyObject *)timer);
    }
    return 0;
}

static int
sleep_delist(Kernel *k, Request *Py_UNUSED(self), PyObject *waiter)
{
    if (!is_task(waiter)) {
        PyObject *token = ((Entry *)waiter)->token;
        return token == NULL ? 0 : timers_disarm(k->timers, (Timer *)token);
    }
    Task *task = (Task *)waiter;
    if (!task->timed) {
        return 0;
    }
    Timer *timer = task->timer;
    task->timed = 0;
    task->link = (LawLink){NULL, NULL};
    int failed = timers_disarm(k->timers, timer);
    Py_DECREF(timer);
    return failed;
}

/* A sleep of no length still gives way. */
static PyObject *
sleep_perform(Kernel *k, Task *task, Request *self)
{
    int ready = sleep_ready(k, task, self);
    if (ready < 0) {
        return NULL;
    }
    if (ready) {
        return suspended(k, k_yielded(k, task));
    }
    if (sleep_enlist(k, self, (PyObject *)task) < 0) {
        return NULL;
    }
    return suspended(k, k_blocked_bare(k, task, self));
}

static const RequestVT sleep_vt = {
    .cost = LAW_ROW_OP,
    .timed = true,
    .perform = sleep_perform,
    .ready = sleep_ready,
    .take = nothing,
    .enlist = sleep_enlist,
    .delist = sleep_delist,
};

static PyObject *
sleep_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    long long ns;
    int absolute;
    if (!PyArg_ParseTuple(args, "Lp:Sleep", &ns, &absolute)) {
        return NULL;
    }
    Sleep *self = (Sleep *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->request.vt = &sleep_vt;
        self->ns = ns;
        self->absolute = absolute != 0;
    }
    return (PyObject *)self;
}

static PyObject *
sleep_why(Sleep *self, PyObject *Py_UNUSED(unused))
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *args[] = {PyLong_FromLongLong(self->ns), self->absolute ? Py_True : Py_False};
    PyObject *why = args[0] == NULL ? NULL : py_call(st, PY_why_sleep, args, 2);
    Py_XDECREF(args[0]);
    return why;
}

static PyMethodDef sleep_methods[] = {
    {"why", (PyCFunction)sleep_why, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sleep_slots[] = {
    {Py_am_send, request_send},
    {Py_tp_doc, "Wait for a time."},
    {Py_tp_traverse, request_traverse},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_new, sleep_make},
    {Py_tp_methods, sleep_methods},
    {0, NULL},
};

PyType_Spec sleep_spec = {
    .name = "bursar._native._Sleep",
    .basicsize = sizeof(Sleep),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = sleep_slots,
};

/* Seconds in whole nanoseconds, as `to_ns` in clock.py has them: what it would refuse is left to it. -1 with an exception
 * set. */
static int64_t
nanoseconds(ModuleState *st, PyObject *seconds)
{
    if (PyFloat_CheckExact(seconds)) {
        double given = PyFloat_AS_DOUBLE(seconds);
        if (given >= 0 && given <= LAW_SECONDS_MAX) {
            double exact = given * 1e9;
            int64_t whole = (int64_t)exact;
            double rest = exact - (double)whole;
            return whole + (rest > 0.5 || (rest == 0.5 && whole % 2 == 1)); /* a half to even, as `round` does */
        }
    }
    PyObject *what = PyUnicode_FromString("sleep"), *args[] = {seconds, what};
    PyObject *told = what == NULL ? NULL : py_call(st, PY_to_ns, args, 2);
    int64_t ns = told == NULL ? -1 : PyLong_AsLongLong(told);
    Py_XDECREF(what);
    Py_XDECREF(told);
    return ns;
}

PyObject *
sleep_for(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool named = names != NULL && PyTuple_GET_SIZE(names) == 1;
    if (n + (names == NULL ? 0 : PyTuple_GET_SIZE(names)) != 1 ||
        (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "seconds") != 0)) {
        PyErr_SetString(PyExc_TypeError, "sleep() takes one argument, the seconds");
        return NULL;
    }
    ModuleState *st = PyModule_GetState(module);
    int64_t ns = nanoseconds(st, args[0]);
    Sleep *self = ns < 0 ? NULL : PyObject_GC_New(Sleep, st->Sleep);
    if (self != NULL) { /* it refers to nothing, so the collector need not know of it */
        self->request.vt = &sleep_vt;
        self->request.awaited = false;
        self->ns = ns;
        self->absolute = false;
    }
    return (PyObject *)self;
}

/* ---- requests that are about one record */

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

/* A sentence that the Python side writes about the record. */
static PyObject *
record_request_why(RecordRequest *self, PyName sentence)
{
    PyObject *args[] = {self->record};
    return py_call(state_of(Py_TYPE(self)), sentence, args, 1);
}

/* ---- Join: until no child lives; free, because what cannot be paid must not keep a block from ending. A block that is left
 * in C waits by itself: see nursery_exit.c. */

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
    .take = nothing,
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

/* ---- Ended: until a task is over */

static int
ended_ready(Kernel *k, Task *task, Request *self)
{
    Task *record = (Task *)((RecordRequest *)self)->record;
    bool over = record->state == LAW_STATE_DONE;
    bool here = record->nursery != NULL && task_kernel(record) == k; /* no nursery: its run was dropped in the middle */
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
    return task_outcome(k->st, (Task *)((RecordRequest *)self)->record);
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
