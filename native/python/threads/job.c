/* Plain functions on threads: after `ThreadJob` and `OnThread` in src/bursar/threads/job.py. What every function goes
 * through is here: the request, the call in its thread, and an end that makes nothing happen but that its task goes on.
 * All else (checkpoints, cancellation, failure, replays) are the Python methods, which are put on these types.
 *
 * JOB-1  `work` runs in a thread of the pool, and touches nothing of the kernel but the context of its own task
 */

#include "python/threads/job.h"
#include "python/cpython/context.h"
#include "python/fast_paths.h"
#include "python/law/deferred_error.h"
#include "python/law/task.h"
#include "python/law/wake.h"
#include "python/module/seam.h"
#include "python/ops/request.h"

/* ---- the request */

typedef struct OnThread {
    Request request;
    PyObject *fn;
    PyObject *args;
} OnThread;

static PyObject *on_thread_perform(Kernel *k, Task *task, Request *request);

static const RequestVT on_thread_vt = {.cost = {{1, 1}, {LAW_OPS, LAW_SYSCALLS}, 2}, .perform = on_thread_perform};

static PyObject *
on_thread_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    if (PyTuple_GET_SIZE(args) != 2 || !PyTuple_CheckExact(PyTuple_GET_ITEM(args, 1))) {
        PyErr_SetString(PyExc_TypeError, "OnThread() takes a function and the tuple of its arguments");
        return NULL;
    }
    OnThread *self = (OnThread *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->request.vt = &on_thread_vt;
        self->fn = Py_NewRef(PyTuple_GET_ITEM(args, 0));
        self->args = Py_NewRef(PyTuple_GET_ITEM(args, 1));
    }
    return (PyObject *)self;
}

static int
on_thread_traverse(OnThread *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->args);
    return request_traverse((PyObject *)self, visit, arg);
}

static int
on_thread_clear(OnThread *self)
{
    Py_CLEAR(self->fn);
    Py_CLEAR(self->args);
    return 0;
}

static void
on_thread_dealloc(OnThread *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    on_thread_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef on_thread_members[] = {
    {"fn", T_OBJECT, offsetof(OnThread, fn), READONLY, NULL},
    {"args", T_OBJECT, offsetof(OnThread, args), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot on_thread_slots[] = {
    {Py_am_send, request_send}, /* 3.11 does not inherit it */
    {Py_tp_doc, "Have a function run by the pool."},
    {Py_tp_new, on_thread_make},
    {Py_tp_traverse, on_thread_traverse},
    {Py_tp_clear, on_thread_clear},
    {Py_tp_dealloc, on_thread_dealloc},
    {Py_tp_members, on_thread_members},
    {0, NULL},
};

PyType_Spec on_thread_spec = {
    .name = "bursar._native.OnThread",
    .basicsize = sizeof(OnThread),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = on_thread_slots,
};

/* ---- the job */

typedef struct ThreadJob {
    Wait wait;
    PyObject *pool; /* whose it is, and whose `post` is told of its end */
    PyObject *fn;   /* until it is called */
    PyObject *args;
    PyObject *value; /* what it returned, or NULL */
    PyObject *error; /* what it raised, or NULL */
    PyObject *stop;  /* why it is to stop, or NULL */
    int stopped_at;  /* the checkpoint where it stopped; 0: it was not called; -1: it came to its end */
    bool counted, begun, posted;
} ThreadJob;

/* What a job is about. 0, or -1 with an exception set. */
static int
set_up(ThreadJob *self, PyObject *pool, Task *task, PyObject *fn, PyObject *given)
{
    if (task->borrows && context_of_its_own(task) < 0) {
        return -1; /* JOB-1: a thread runs in it while others run in theirs */
    }
    Py_XSETREF(self->wait.task, (Task *)Py_NewRef((PyObject *)task));
    self->wait.generation = task->generation;
    Py_XSETREF(self->pool, Py_NewRef(pool));
    Py_XSETREF(self->fn, Py_NewRef(fn));
    Py_XSETREF(self->args, Py_NewRef(given));
    self->stopped_at = -1;
    self->counted = true;
    return 0;
}

static int
thread_job_init(ThreadJob *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *pool, *task, *fn, *given;
    if (st == NULL || !PyArg_ParseTuple(args, "OO!OO!:Job", &pool, st->Task, &task, &fn, &PyTuple_Type, &given)) {
        return -1;
    }
    return set_up(self, pool, (Task *)task, fn, given);
}

static int
thread_job_traverse(ThreadJob *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->wait.task);
    Py_VISIT(self->pool);
    Py_VISIT(self->fn);
    Py_VISIT(self->args);
    Py_VISIT(self->value);
    Py_VISIT(self->error);
    Py_VISIT(self->stop);
    return 0;
}

static int
thread_job_clear(ThreadJob *self)
{
    Py_CLEAR(self->wait.task);
    Py_CLEAR(self->pool);
    Py_CLEAR(self->fn);
    Py_CLEAR(self->args);
    Py_CLEAR(self->value);
    Py_CLEAR(self->error);
    Py_CLEAR(self->stop);
    return 0;
}

static void
thread_job_dealloc(ThreadJob *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    thread_job_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- handing over */

/* By the method, which finds out everything. If it came to a plain job, others of the same terms may have theirs from the
 * same pool: the run is no replay, and they may use threads. And what was written and annotated like this function wants no
 * checkpoint; the function itself is not kept, for it may hold what its tasks were given. */
static PyObject *
hand_over(Kernel *k, Task *task, OnThread *request)
{
    PyObject *args[] = {(PyObject *)request, (PyObject *)k, (PyObject *)task};
    PyObject *answer = PyObject_VectorcallMethod(k->st->str_hand_over, args, 3, NULL);
    PyObject *wait = answer == NULL ? NULL : task->pending;
    if (wait != NULL && Py_TYPE(wait) == k->st->ThreadJob && ((ThreadJob *)wait)->pool != NULL) {
        Py_XSETREF(k->caches.threads, Py_NewRef(((ThreadJob *)wait)->pool));
        Py_XSETREF(k->caches.thread_terms, (SpawnTerms *)Py_NewRef((PyObject *)task->terms));
        PyFunctionObject *fn = PyFunction_Check(request->fn) ? (PyFunctionObject *)request->fn : NULL;
        Py_XSETREF(k->caches.thread_code, fn == NULL ? NULL : Py_NewRef(fn->func_code));
        Py_XSETREF(k->caches.thread_notes, fn == NULL ? NULL : Py_XNewRef(fn->func_annotations));
    }
    return answer;
}

/* Whether it is known that a function wants no checkpoint: it has no annotations, or the last one was such. */
static bool
has_no_place(const Kernel *k, PyObject *thing)
{
    if (!PyFunction_Check(thing)) {
        return false;
    }
    PyFunctionObject *fn = (PyFunctionObject *)thing;
    PyObject *notes = fn->func_annotations; /* NULL: none, or not worked out yet */
    return notes != NULL && ((PyDict_CheckExact(notes) && PyDict_GET_SIZE(notes) == 0) ||
                             (notes == k->caches.thread_notes && fn->func_code == k->caches.thread_code));
}

static PyObject *
on_thread_perform(Kernel *k, Task *task, Request *request)
{
    OnThread *self = (OnThread *)request;
    bool known = FAST_PATHS && k->caches.thread_terms != NULL && task->terms == k->caches.thread_terms &&
                 PySet_GET_SIZE(k->revoked) == 0;
    if (!known || !has_no_place(k, self->fn)) {
        return hand_over(k, task, self);
    }
    PyObject *pool = Py_NewRef(k->caches.threads); /* RECORD-3 */
    ThreadJob *job = (ThreadJob *)k->st->ThreadJob->tp_alloc(k->st->ThreadJob, 0);
    bool whole = job != NULL && set_up(job, pool, task, self->fn, self->args) == 0;
    PyObject *started = whole ? PyObject_CallMethodOneArg(pool, k->st->str_start, (PyObject *)job) : NULL;
    int failed = started == NULL ? -1 : k_blocked(k, task, (PyObject *)job);
    Py_XDECREF(started);
    Py_XDECREF((PyObject *)job);
    Py_DECREF(pool);
    return failed < 0 ? NULL : Py_NewRef(k->st->SUSPENDED);
}

/* ---- in the thread */

/* What the function returned, or NULL with an exception: a coroutine or a request is of no use to whoever does not await
 * it (ops/classify.py). Takes over the value. */
static PyObject *
returned(ThreadJob *self, PyObject *value)
{
    const PyAsyncMethods *methods = value == NULL ? NULL : Py_TYPE(value)->tp_as_async;
    if (methods == NULL || methods->am_await == NULL) {
        return value;
    }
    ModuleState *st = state_of(Py_TYPE(self));
    if (PyCoro_CheckExact(value) || PyObject_TypeCheck(value, st->Request)) {
        PyObject *told[] = {(PyObject *)self->wait.task, value};
        Py_XDECREF(py_call(st, PY_refuse_awaitable, told, 2)); /* raises TypeError */
        Py_CLEAR(value);
    }
    return value;
}

/* Call the function in the context of its task; what came of it is kept. 0, or -1: it cannot be called. */
static int
call(ThreadJob *self)
{
    PyObject *fn = self->fn, *args = self->args, *context = self->wait.task ? self->wait.task->context : NULL;
    if (rule(fn != NULL && args != NULL && context != NULL, "it is called once") < 0) {
        return -1;
    }
    self->fn = self->args = NULL; /* what they hold is not kept for the task */
    Py_INCREF(context);
    PyObject *value = NULL;
    if (PyContext_Enter(context) == 0) {
        value = returned(self, PyObject_Call(fn, args, NULL));
        PyObject *error = value == NULL ? taken_error() : NULL;
        if (PyContext_Exit(context) < 0) {
            Py_CLEAR(value);
            Py_CLEAR(error);
        }
        if (error != NULL) {
            PyErr_SetRaisedException(error);
        }
    }
    Py_DECREF(context);
    Py_DECREF(fn);
    Py_DECREF(args);
    Py_XSETREF(self->value, value);
    if (value == NULL) {
        Py_XSETREF(self->error, taken_error());
    }
    return 0;
}

static PyObject *
thread_job_py_call(ThreadJob *self, PyObject *Py_UNUSED(unused))
{
    return call(self) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
thread_job_work(ThreadJob *self, PyObject *Py_UNUSED(unused))
{
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || rule(self->pool != NULL, "it is of a pool") < 0) {
        return NULL;
    }
    if (self->stop != NULL) { /* THREAD-3 */
        PyObject *cancelled = PyObject_CallOneArg(st->Cancelled, self->stop);
        if (cancelled == NULL) {
            return NULL;
        }
        Py_XSETREF(self->error, cancelled);
        self->stopped_at = 0;
    } else if (call(self) < 0) {
        return NULL;
    }
    self->posted = true;
    return PyObject_CallMethodOneArg(self->pool, st->str_post, (PyObject *)self);
}

/* In the loop, or in its place: take in an end that makes nothing happen but that the task goes on. True: done. */
static PyObject *
thread_job_deliver_if_plain(ThreadJob *self, PyObject *kernel)
{
    Task *task = self->wait.task;
    if (task == NULL || !PyObject_TypeCheck(kernel, task_kernel(task)->st->Kernel)) {
        PyErr_SetString(PyExc_TypeError, "smoothly() takes a native kernel");
        return NULL;
    }
    if (self->error != NULL || task->cancel_pending) {
        Py_RETURN_FALSE;
    }
    LawNotice notice;
    PyObject *value = self->value;
    self->value = NULL;
    int woken = k_wake((Kernel *)kernel, task, self->wait.generation, value, NULL, true, &notice);
    Py_XDECREF(value);
    return woken < 0 ? NULL : Py_NewRef(Py_True);
}

static PyMethodDef thread_job_methods[] = {
    {"call", (PyCFunction)thread_job_py_call, METH_NOARGS, "Call the function."},
    {"work", (PyCFunction)thread_job_work, METH_NOARGS, "In the thread: call the function, and tell what came of it."},
    {"deliver_if_plain", (PyCFunction)thread_job_deliver_if_plain, METH_O,
     "Take in its end, if that makes nothing else happen."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef thread_job_members[] = {
    {"pool", T_OBJECT, offsetof(ThreadJob, pool), READONLY, NULL},
    {"fn", T_OBJECT, offsetof(ThreadJob, fn), 0, NULL},
    {"args", T_OBJECT, offsetof(ThreadJob, args), 0, NULL},
    {"value", T_OBJECT, offsetof(ThreadJob, value), 0, NULL},
    {"stopped_at", T_INT, offsetof(ThreadJob, stopped_at), 0, NULL},
    {"counted", T_BOOL, offsetof(ThreadJob, counted), 0, NULL},
    {"begun", T_BOOL, offsetof(ThreadJob, begun), 0, NULL},
    {"posted", T_BOOL, offsetof(ThreadJob, posted), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* None, to Python, is nothing: these two are looked at here. */
#define GET_SET(name)                                                                        \
    static PyObject *get_##name(ThreadJob *self, void *Py_UNUSED(closure))                   \
    {                                                                                        \
        return Py_NewRef(self->name != NULL ? self->name : Py_None);                         \
    }                                                                                        \
    static int set_##name(ThreadJob *self, PyObject *value, void *Py_UNUSED(closure))        \
    {                                                                                        \
        Py_XSETREF(self->name, value == NULL || value == Py_None ? NULL : Py_NewRef(value)); \
        return 0;                                                                            \
    }

GET_SET(error)
GET_SET(stop)

static PyGetSetDef thread_job_getset[] = {
    {"error", (getter)get_error, (setter)set_error, NULL, NULL},
    {"stop", (getter)get_stop, (setter)set_stop, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot thread_job_slots[] = {
    {Py_tp_doc, "One function that runs on a thread, and the wait of its task for it."},
    {Py_tp_init, thread_job_init},
    {Py_tp_traverse, thread_job_traverse},
    {Py_tp_clear, thread_job_clear},
    {Py_tp_dealloc, thread_job_dealloc},
    {Py_tp_methods, thread_job_methods},
    {Py_tp_members, thread_job_members},
    {Py_tp_getset, thread_job_getset},
    {0, NULL},
};

PyType_Spec thread_job_spec = {
    .name = "bursar._native.ThreadJob",
    .basicsize = sizeof(ThreadJob),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = thread_job_slots,
};
