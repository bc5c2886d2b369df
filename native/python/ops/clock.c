/* `sleep`: a request that arms a timer and waits for it. After ops/clock.py.
 *
 * A task that only sleeps waits bare: the timer is in its record. Inside a `select` the entry of the sleep holds the
 * timer.
 */

#include "python/ops/clock.h"
#include "python/law/dispatch_wake.h"
#include "python/law/spawn.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/law/wait.h"
#include "python/module/names_from_python.h"
#include "python/module/seam.h"
#include "python/ops/request.h"

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

/* A sleep of no length still lets other tasks run. */
static PyObject *
sleep_perform(Kernel *k, Task *task, Request *self)
{
    int ready = sleep_ready(k, task, self);
    if (ready < 0) {
        return NULL;
    }
    if (ready) {
        return request_suspended(k, k_yielded(k, task));
    }
    if (sleep_enlist(k, self, (PyObject *)task) < 0) {
        return NULL;
    }
    return request_suspended(k, k_blocked_bare(k, task, self));
}

static const RequestVT sleep_vt = {
    .cost = LAW_ROW_OP,
    .timed = true,
    .perform = sleep_perform,
    .ready = sleep_ready,
    .take = request_take_nothing,
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

/* Seconds in whole nanoseconds, as `to_ns` in ops/clock.py computes them. `to_ns` handles what is no plain float,
 * and refuses bad values. -1 with an exception set. */
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
    PyObject *converted = what == NULL ? NULL : py_call(st, PY_to_ns, args, 2);
    int64_t ns = converted == NULL ? -1 : PyLong_AsLongLong(converted);
    Py_XDECREF(what);
    Py_XDECREF(converted);
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
    if (self != NULL) { /* not tracked by the collector: it refers to nothing */
        self->request.vt = &sleep_vt;
        self->request.step = REQUEST_NEW;
        self->ns = ns;
        self->absolute = false;
    }
    return (PyObject *)self;
}
