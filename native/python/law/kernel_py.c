/* The Python type `Kernel`: its attributes, and its methods, which call the functions in C. After law/kernel.py.
 *
 * `bursar.backend.Kernel` derives from this type and then from the kernel in Python. So a method of this type replaces
 * the Python method, and every other method is the Python one.
 */

#include "python/cpython/context_fast.h"
#include "python/law/admission/gate.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/dispatch_fast.h"
#include "python/law/dispatch_wake.h"
#include "python/law/kernel.h"
#include "python/law/ledger.h"
#include "python/law/nursery_ops.h"
#include "python/law/queue_view.h"
#include "python/law/spawn.h"
#include "python/law/task.h"
#include "python/law/task_end.h"
#include "python/law/timers.h"
#include "python/module/seam.h"
#include "python/trace/events.h"
#include "python/trace/writer.h"

/* ---- methods */

static Task *
as_task(PyObject *thing)
{
    if (!is_task(thing)) {
        PyErr_Format(PyExc_TypeError, "%R is not a task of a native kernel", thing);
        return NULL;
    }
    return (Task *)thing;
}

static PyObject *
none_or_error(int failed)
{
    return failed < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
kernel_step(Kernel *k, PyObject *Py_UNUSED(unused))
{
    Task *task;
    return !kernel_is_whole(k) || k_step(k, &task) < 0 ? NULL : Py_NewRef(task ? (PyObject *)task : Py_None);
}

#define TASK_METHOD(name, call)                                \
    static PyObject *kernel_##name(Kernel *k, PyObject *thing) \
    {                                                          \
        Task *task = as_task(thing);                           \
        return task == NULL ? NULL : none_or_error(call);      \
    }

TASK_METHOD(step_over, k_step_over(k, task))
TASK_METHOD(yielded, k_yielded(k, task))
TASK_METHOD(interrupt, k_interrupt(k, task))
TASK_METHOD(poll_over, k_poll_over(k, task))
TASK_METHOD(end_wait, k_end_wait(k, task, false, 0))
TASK_METHOD(unqueue, k_unqueue(k, task))
TASK_METHOD(unpause, k_unpause(k, task))
TASK_METHOD(discard_answer, ((void)k, k_discard_answer(task), 0))

static PyObject *
kernel_blocked(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Task *task = n == 2 ? as_task(args[0]) : NULL;
    return task == NULL ? NULL : none_or_error(k_blocked(k, task, args[1]));
}

static PyObject *
kernel_ready(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Task *task = n >= 1 ? as_task(args[0]) : NULL;
    bool timed = n == 2 && args[1] != Py_None;
    long long deadline_ns = timed ? PyLong_AsLongLong(args[1]) : 0;
    return task == NULL || PyErr_Occurred() ? NULL : none_or_error(k_ready(k, task, timed, deadline_ns));
}

static PyObject *
kernel_wake(Kernel *k, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"task", "generation", "value", "error", "effect", NULL};
    PyObject *thing, *value = Py_None, *error = Py_None;
    unsigned long long generation;
    int effect = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OK|$OOp:wake", names, &thing, &generation, &value, &error,
                                     &effect)) {
        return NULL;
    }
    Task *task = as_task(thing);
    LawNotice notice;
    if (task == NULL || k_wake(k, task, generation, value, error == Py_None ? NULL : error, effect != 0, &notice) < 0) {
        return NULL;
    }
    return Py_NewRef(k->st->notices[notice]);
}

static PyObject *
kernel_note(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    if (k->observer == NULL) {
        Py_RETURN_NONE;
    }
    if (n < 2 || n > 3) {
        PyErr_SetString(PyExc_TypeError, "note() takes a kind, a task and a detail");
        return NULL;
    }
    if (k->trace_writer != NULL && n == 3 && PyUnicode_CheckExact(args[0]) &&
        PyUnicode_CompareWithASCIIString(args[0], "clock") == 0 && note_clock(k, args[2])) {
        Py_RETURN_NONE; /* a fast path: each deadline that a program sets makes a "clock" event */
    }
    PyObject *observer = Py_NewRef(k->observer), *all[] = {args[0], args[1], n == 3 ? args[2] : Py_None};
    PyObject *result = PyObject_Vectorcall(observer, all, 3, NULL);
    Py_DECREF(observer);
    if (result == NULL && k_defer_error(k) == 0) {
        Py_RETURN_NONE;
    }
    return result;
}

static PyObject *
kernel_observe(Kernel *k, PyObject *observer)
{
    TraceWriter *trace_writer = NULL;
    if (!kernel_is_whole(k) || cleanup_arm_promised(k) < 0 ||
        (observer != Py_None && trace_writer_of(k->st, observer, &trace_writer) < 0)) {
        return NULL;
    }
    Py_XSETREF(k->trace_writer, trace_writer);
    Py_XSETREF(k->observer, observer == Py_None ? NULL : Py_NewRef(observer));
    return PyObject_SetAttrString((PyObject *)k->timers, "observer", observer) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
kernel_new_id(Kernel *k, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(k->next_id++);
}

static PyObject *
kernel_flush_uses(Kernel *k, PyObject *Py_UNUSED(unused))
{
    return none_or_error(k_flush_uses(k));
}

/* NULL for an argument that is None. */
static PyObject *
null_if_none(PyObject *argument)
{
    return argument == Py_None ? NULL : argument;
}

static PyObject *
kernel_spawn(Kernel *k, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"nursery", "name",    "budget", "capabilities", "pinned",
                            "acting",  "spawner", "ticket", "again",        NULL};
    PyObject *nursery, *name = NULL, *budget = k->st->UNSTATED, *capabilities = NULL, *spawner = NULL, *ticket = NULL;
    int pinned = 0, acting = 0, again = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$UOOppOOp:spawn", names, k->st->Nursery, &nursery, &name,
                                     &budget, &capabilities, &pinned, &acting, &spawner, &ticket, &again)) {
        return NULL;
    }
    if (budget != k->st->UNSTATED) {
        PyObject *plain[] = {budget}, *checked = py_call(k->st, PY_require_plain, plain, 1);
        if (checked == NULL) {
            return NULL;
        }
        Py_DECREF(checked);
    }
    PyObject *title = NULL;
    if (name != NULL && PyUnicode_GET_LENGTH(name) > 0) {
        PyObject *words[] = {name};
        bool is_brief = PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) <= LAW_TEXT_MAX;
        title = is_brief ? Py_NewRef(name) : py_call(k->st, PY_brief, words, 1);
        if (title == NULL) {
            return NULL;
        }
    }
    Task *by = spawner == NULL || spawner == Py_None ? NULL : as_task(spawner);
    unsigned how = (pinned ? SPAWN_PINNED : 0u) | (acting ? SPAWN_ACTING : 0u) | (again ? SPAWN_AGAIN : 0u);
    Task *task = PyErr_Occurred() ? NULL
                                  : k_spawn(k, (Nursery *)nursery, title, budget, null_if_none(capabilities), how, by,
                                            ticket ? null_if_none(ticket) : NULL);
    Py_XDECREF(title);
    return (PyObject *)task;
}

/* kernel.admit(task, priority, effective), after law/permission.py */
static PyObject *
kernel_admit(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Task *task = n == 3 ? as_task(args[0]) : NULL;
    if (task == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "admit() takes a task, its priority and its effective priority");
        }
        return NULL;
    }
    long long priority = PyLong_AsLongLong(args[1]), effective = PyErr_Occurred() ? -1 : PyLong_AsLongLong(args[2]);
    return PyErr_Occurred() ? NULL : none_or_error(k_admit(k, task, priority, effective));
}

/* kernel.start(task, fn, args): give a task its function. The coroutine is made when the task begins. Only for
 * functions that are certain to return a coroutine; `ops.start` starts the others. */
static PyObject *
kernel_start(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Task *task = n == 3 && PyTuple_CheckExact(args[2]) ? as_task(args[0]) : NULL;
    if (task == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "start() takes a task, a function and its arguments");
        }
        return NULL;
    }
    Py_ssize_t given = PyTuple_GET_SIZE(args[2]);
    PyObject *arguments = given > 0 ? arguments_new(k->st, &PyTuple_GET_ITEM(args[2], 0), given) : NULL;
    if ((given > 0 && arguments == NULL) || context_at_spawn(k, task) < 0) {
        Py_XDECREF(arguments);
        return NULL;
    }
    Py_XSETREF(task->answer, arguments);
    Py_XSETREF(task->work, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

static PyObject *
kernel_open_nursery(Kernel *k, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"owner", "name", "budget", "capabilities", NULL};
    PyObject *owner, *name = NULL, *budget = k->st->UNSTATED, *capabilities = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$UOO:open_nursery", names, k->st->Task, &owner, &name, &budget,
                                     &capabilities)) {
        return NULL;
    }
    PyObject *plain[] = {budget}, *checked = py_call(k->st, PY_require_plain, plain, 1);
    PyObject *title = NULL;
    if (checked != NULL && name != NULL && PyUnicode_GET_LENGTH(name) > 0) {
        PyObject *words[] = {name};
        title = py_call(k->st, PY_brief, words, 1);
    }
    Py_XDECREF(checked);
    Nursery *nursery =
        PyErr_Occurred() ? NULL : k_open_nursery(k, (Task *)owner, title, budget, null_if_none(capabilities));
    Py_XDECREF(title);
    return (PyObject *)nursery;
}

#define NURSERY_METHOD(name, call)                                                          \
    static PyObject *kernel_##name(Kernel *k, PyObject *thing)                              \
    {                                                                                       \
        if (Py_TYPE(thing) != k->st->Nursery) {                                             \
            PyErr_Format(PyExc_TypeError, "%R is not a nursery of a native kernel", thing); \
            return NULL;                                                                    \
        }                                                                                   \
        return none_or_error(call(k, (Nursery *)thing));                                    \
    }

NURSERY_METHOD(close_nursery, k_close_nursery)
NURSERY_METHOD(end_nursery, k_end_nursery)

static PyObject *
kernel_finish(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Task *task = n == 2 ? as_task(args[0]) : NULL;
    PyObject *kind = task == NULL ? NULL : PyObject_GetAttrString(args[1], "kind");
    long number = kind == NULL ? -1 : PyLong_AsLong(kind);
    Py_XDECREF(kind);
    if (number < 0 || number >= LAW_OUTCOMES) {
        return NULL;
    }
    int done = k_finish(k, task, (LawOutcome)number, NULL, args[1]);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL
#define KEYS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef kernel_methods[] = {
    {"step", (PyCFunction)kernel_step, METH_NOARGS, NULL},
    {"step_over", (PyCFunction)kernel_step_over, METH_O, NULL},
    {"yielded", (PyCFunction)kernel_yielded, METH_O, NULL},
    {"blocked", FAST(kernel_blocked), NULL},
    {"interrupt", (PyCFunction)kernel_interrupt, METH_O, NULL},
    {"wake", KEYS(kernel_wake), NULL},
    {"_ready", FAST(kernel_ready), NULL},
    {"_poll_over", (PyCFunction)kernel_poll_over, METH_O, NULL},
    {"_end_wait", (PyCFunction)kernel_end_wait, METH_O, NULL},
    {"_unqueue", (PyCFunction)kernel_unqueue, METH_O, NULL},
    {"_unpause", (PyCFunction)kernel_unpause, METH_O, NULL},
    {"_discard_answer", (PyCFunction)kernel_discard_answer, METH_O, NULL},
    {"note", FAST(kernel_note), NULL},
    {"observe", (PyCFunction)kernel_observe, METH_O, NULL},
    {"new_id", (PyCFunction)kernel_new_id, METH_NOARGS, NULL},
    {"flush_uses", (PyCFunction)kernel_flush_uses, METH_NOARGS, NULL},
    {"bill", FAST(ledger_bill), NULL},
    {"_record_spent", FAST(ledger_record_spent), NULL},
    {"_record_refund", FAST(ledger_record_refund), NULL},
    {"spawn", KEYS(kernel_spawn), NULL},
    {"admit", FAST(kernel_admit), NULL},
    {"start", FAST(kernel_start), NULL},
    {"open_nursery", KEYS(kernel_open_nursery), NULL},
    {"close_nursery", (PyCFunction)kernel_close_nursery, METH_O, NULL},
    {"end_nursery", (PyCFunction)kernel_end_nursery, METH_O, NULL},
    {"finish", FAST(kernel_finish), NULL},
    {"advance", FAST(kernel_advance), NULL},
    {"_fire", (PyCFunction)kernel_fire, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- attributes */

#define ST(self) ((self)->st)
#define GET(name, expression)                                        \
    static PyObject *get_##name(Kernel *k, void *Py_UNUSED(closure)) \
    {                                                                \
        return expression;                                           \
    }
#define OR_NONE(x) Py_NewRef((x) ? (PyObject *)(x) : Py_None)

GET(current, OR_NONE(k->current))
GET(at, OR_NONE(k->at))
GET(injector, queue_view_make(k->st, (PyObject *)k, &k->injector))
GET(observer, OR_NONE(k->observer))
GET(done, Py_BuildValue("(LLLLL)", (long long)k->done[0], (long long)k->done[1], (long long)k->done[2],
                        (long long)k->done[3], (long long)k->done[4]))

/* The law sets it aside for a moment and puts it back. It is borrowed: a RUNNING task is in its nursery, and the kernel
 * forgets it when it stops running. */
static int
set_current(Kernel *k, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || value == Py_None) {
        k->current = NULL;
        return 0;
    }
    Task *task = as_task(value);
    if (task == NULL) {
        return -1;
    }
    if (task->state != LAW_STATE_RUNNING || task->nursery == NULL || task_kernel(task) != k) {
        PyErr_SetString(PyExc_ValueError, "the current task of a kernel is the task that it polls, or None");
        return -1;
    }
    k->current = task;
    return 0;
}

static int
set_observer(Kernel *k, PyObject *value, void *Py_UNUSED(closure))
{
    PyObject *done = kernel_observe(k, value != NULL ? value : Py_None);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyGetSetDef kernel_getset[] = {
    {"current", (getter)get_current, (setter)set_current, NULL, NULL},
    {"at", (getter)get_at, NULL, NULL, NULL},
    {"injector", (getter)get_injector, NULL, NULL, NULL},
    {"observer", (getter)get_observer, (setter)set_observer, NULL, NULL},
    {"ended", (getter)get_done, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef kernel_members[] = {
    {"now_ns", T_LONGLONG, offsetof(Kernel, now_ns), 0, NULL},
    {"yield_interval", T_LONGLONG, offsetof(Kernel, yield_interval), READONLY, NULL},
    {"cleanup_ops", T_LONGLONG, offsetof(Kernel, cleanup_ops), 0, NULL},
    {"cleanup_ns", T_LONGLONG, offsetof(Kernel, cleanup_ns), 0, NULL},
    {"runnable", T_LONGLONG, offsetof(Kernel, runnable), READONLY, NULL},
    {"_next_id", T_ULONGLONG, offsetof(Kernel, next_id), READONLY, NULL},
    {"live", T_LONGLONG, offsetof(Kernel, live), READONLY, NULL},
    {"spawned", T_LONGLONG, offsetof(Kernel, spawned), READONLY, NULL},
    {"decisions", T_ULONGLONG, offsetof(Kernel, decisions), READONLY, NULL},
    {"chain", T_ULONGLONG, offsetof(Kernel, chain), 0, NULL},
    {"draining_nurseries", T_LONGLONG, offsetof(Kernel, draining_nurseries), 0, NULL},
    {"draining_holders", T_OBJECT, offsetof(Kernel, draining_holders), READONLY, NULL},
    {"workers", T_OBJECT, offsetof(Kernel, workers), READONLY, NULL},
    {"timers", T_OBJECT, offsetof(Kernel, timers), READONLY, NULL},
    {"registry", T_OBJECT, offsetof(Kernel, registry), READONLY, NULL},
    {"counters", T_OBJECT, offsetof(Kernel, counters), READONLY, NULL},
    {"root", T_OBJECT, offsetof(Kernel, root), READONLY, NULL},
    {"runtime", T_OBJECT, offsetof(Kernel, runtime), 0, NULL},
    {"gate", T_OBJECT, offsetof(Kernel, gate), 0, NULL},
    {"inherit", T_BOOL, offsetof(Kernel, inherit), 0, NULL},
    {"default_spawns", T_OBJECT, offsetof(Kernel, default_spawns), 0, NULL},
    {"thread", T_ULONG, offsetof(Kernel, thread), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "The part of the kernel that is C."},
    {Py_tp_new, kernel_make},
    {Py_tp_init, kernel_init},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_clear, kernel_clear},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_methods, kernel_methods},
    {Py_tp_getset, kernel_getset},
    {Py_tp_members, kernel_members},
    {0, NULL},
};

PyType_Spec kernel_spec = {
    .name = "bursar._native.Kernel",
    .basicsize = sizeof(Kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = kernel_slots,
};
