/* Plain functions on threads. After `ThreadJob` and `OnThread` in src/bursar/threads/job.py.
 *
 * Here is what every function needs: the request, the call in the thread, and a plain end, after which only its task
 * continues. Everything else (checkpoints, cancellation, failures, replays) is in Python methods of these types.
 *
 * JOB-1  `work` runs in a thread of the pool, and touches nothing of the kernel but the context of its own task
 */

#include "python/threads/job.h"
#include "python/cpython/context.h"
#include "python/fast_paths.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_wake.h"
#include "python/law/task.h"
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
    request_check_used(&self->request);
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
    {Py_tp_doc, "Run a function on a thread of the pool."},
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
    PyObject *pool; /* the pool; its `post` reports the end of the job */
    PyObject *fn;   /* NULL from the call on */
    PyObject *args;
    PyObject *value; /* what it returned, or NULL */
    PyObject *error; /* what it raised, or NULL */
    PyObject *stop;  /* the reason to stop, or NULL */
    int stopped_at;  /* the checkpoint where it stopped; 0: it was not called; -1: it ran to its end */
    bool counted, begun, posted;
} ThreadJob;

/* Fill a new job. 0, or -1 with an exception set. */
static int
set_up(ThreadJob *self, PyObject *pool, Task *task, PyObject *fn, PyObject *given)
{
    if (task->borrows && context_of_its_own(task) < 0) {
        return -1; /* JOB-1: the thread runs in this context while other tasks run */
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
    if (st == NULL || !PyArg_ParseTuple(args, "OO!OO!:ThreadJob", &pool, st->Task, &task, &fn, &PyTuple_Type, &given)) {
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

/* Hand the function over by the method in Python, which checks everything. If that made a plain job, the pool and
 * the terms are remembered: the run is no replay, and tasks with these terms may use threads. The code and the
 * annotations are remembered too: such a function takes no checkpoint. The function itself is not kept, because it
 * may hold values of its tasks. */
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

/* Whether it is known that a function takes no checkpoint: it has no annotations, or those of the last such
 * function. */
static bool
takes_no_checkpoint(const Kernel *k, PyObject *thing)
{
    if (!PyFunction_Check(thing)) {
        return false;
    }
    PyFunctionObject *fn = (PyFunctionObject *)thing;
    PyObject *notes = fn->func_annotations; /* NULL: none, or not evaluated yet */
    return notes != NULL && ((PyDict_CheckExact(notes) && PyDict_GET_SIZE(notes) == 0) ||
                             (notes == k->caches.thread_notes && fn->func_code == k->caches.thread_code));
}

/* Whether the function can be handed over in C: the same pool took a function of a task with these capabilities
 * before, and it is known that the function takes no checkpoint. The slow twin is `hand_over`. */
static bool
is_plain_hand_over(const Kernel *k, const Task *task, PyObject *fn)
{
    return FAST_PATHS && k->caches.thread_terms != NULL && task->terms == k->caches.thread_terms &&
           PySet_GET_SIZE(k->revoked) == 0 && takes_no_checkpoint(k, fn);
}

static PyObject *
on_thread_perform(Kernel *k, Task *task, Request *request)
{
    OnThread *self = (OnThread *)request;
    if (!is_plain_hand_over(k, task, self->fn)) {
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

/* What the function returned. NULL with TypeError set: it is a coroutine or a request, which nothing would await
 * (ops/classify.py). Steals `value`. */
static PyObject *
returned(ThreadJob *self, PyObject *value)
{
    const PyAsyncMethods *methods = value == NULL ? NULL : Py_TYPE(value)->tp_as_async;
    if (methods == NULL || methods->am_await == NULL) {
        return value;
    }
    ModuleState *st = state_of(Py_TYPE(self));
    if (PyCoro_CheckExact(value) || PyObject_TypeCheck(value, st->Request)) {
        PyObject *args[] = {(PyObject *)self->wait.task, value};
        Py_XDECREF(py_call(st, PY_refuse_awaitable, args, 2)); /* raises TypeError */
        Py_CLEAR(value);
    }
    return value;
}

/* Call the function in the context of its task, and store its value or error. 0, or -1 with an exception set: it was
 * called before. */
static int
call(ThreadJob *self)
{
    PyObject *fn = self->fn, *args = self->args, *context = self->wait.task ? self->wait.task->context : NULL;
    if (rule(fn != NULL && args != NULL && context != NULL, "it is called once") < 0) {
        return -1;
    }
    self->fn = self->args = NULL; /* so that the job does not keep what they hold */
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

/* In the thread of the loop: deliver a plain end, after which only the task continues. False: it is not plain, and
 * nothing was done. */
static PyObject *
thread_job_deliver_if_plain(ThreadJob *self, PyObject *kernel)
{
    Task *task = self->wait.task;
    if (task == NULL || !PyObject_TypeCheck(kernel, task_kernel(task)->st->Kernel)) {
        PyErr_SetString(PyExc_TypeError, "deliver_if_plain() takes a native kernel");
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
    {"work", (PyCFunction)thread_job_work, METH_NOARGS, "In the thread: call the function, and report its end."},
    {"deliver_if_plain", (PyCFunction)thread_job_deliver_if_plain, METH_O,
     "Deliver its end, if nothing else follows from it."},
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

/* NULL is None in Python. */
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
