/* Calls from other threads. After `PortalCalls` in src/bursar/threads/portal.py.
 *
 * A ring of functions with their arguments. Any thread adds a call; the thread of the runtime takes the calls out and
 * runs them. Only the first call after a delivery notifies the pump, so a thousand calls need one message. A call is
 * stored in the ring itself: adding it allocates nothing, unless it has many arguments or the ring must grow.
 *
 * Rejected: a lock-free queue of nodes. The caller holds the GIL anyway, and each node is an allocation. Without a GIL,
 * the critical section of the object does the same.
 *
 * CALLS-1  while the ring holds a call, the pump was notified, or is being notified, and the delivery has not ended yet
 * CALLS-2  a call leaves the ring before its function runs, so it runs at most once
 */

#include "python/threads/portal_calls.h"

#include <stddef.h>
#include <structmember.h>

#ifndef Py_BEGIN_CRITICAL_SECTION /* before 3.13 there always is a GIL */
#  define Py_BEGIN_CRITICAL_SECTION(self) {
#  define Py_END_CRITICAL_SECTION() }
#endif

enum {
    ARGS_KEPT = 3,    /* arguments that are stored in the ring; more arguments become a tuple */
    ROOM_FIRST = 64,  /* calls of the first allocation: 2.5 KiB */
    ROOM_KEPT = 1024, /* calls that an empty ring may keep room for: 40 KiB */
};

/* One call: its function, and its arguments; all owned. */
typedef struct {
    PyObject *function;
    Py_ssize_t n; /* number of arguments; if above ARGS_KEPT, args[0] is the tuple of them */
    PyObject *args[ARGS_KEPT];
} PortalCall;

/* `PortalCalls`. */
typedef struct {
    PyObject_HEAD
    PortalCall *slots;
    size_t room; /* a power of two, or 0 */
    size_t first;
    size_t length;
    Py_ssize_t limit;
    PyObject *tell, *refuse, *failed; /* callbacks of the owner */
    char open;
    bool posted; /* CALLS-1 */
} PortalCalls;

/* ---- one call */

static Py_ssize_t
portal_call_held(const PortalCall *call)
{
    return call->n <= ARGS_KEPT ? call->n : 1;
}

static void
portal_call_drop(PortalCall *call)
{
    for (Py_ssize_t i = 0; i < portal_call_held(call); i++) {
        Py_DECREF(call->args[i]);
    }
    Py_DECREF(call->function);
}

/* Make a call from the arguments of `call(function, *args)`. 0, or -1 with MemoryError set. */
static int
portal_call_make(PortalCall *call, PyObject *const *args, Py_ssize_t n)
{
    call->n = n - 1;
    if (call->n <= ARGS_KEPT) {
        for (Py_ssize_t i = 0; i < call->n; i++) {
            call->args[i] = Py_NewRef(args[1 + i]);
        }
    } else {
        PyObject *rest = PyTuple_New(call->n);
        if (rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < call->n; i++) {
            PyTuple_SET_ITEM(rest, i, Py_NewRef(args[1 + i]));
        }
        call->args[0] = rest;
    }
    call->function = Py_NewRef(args[0]);
    return 0;
}

/* Call the function. Its result, or NULL with an exception set. */
static PyObject *
portal_call_run(PortalCall *call)
{
    if (call->n > ARGS_KEPT) {
        return PyObject_Call(call->function, call->args[0], NULL);
    }
    PyObject *stack[1 + ARGS_KEPT]; /* the callee may write to the first place: a method puts its object there */
    for (Py_ssize_t i = 0; i < call->n; i++) {
        stack[1 + i] = call->args[i];
    }
    return PyObject_Vectorcall(call->function, stack + 1, (size_t)call->n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* ---- the ring; nothing here runs code in Python */

/* Put a call at the end. 0: the ring owns it. -1 with MemoryError set: nothing has changed. */
static int
portal_calls_put(PortalCalls *self, const PortalCall *call)
{
    if (self->length == self->room) {
        size_t room = self->room == 0 ? ROOM_FIRST : 2 * self->room;
        PortalCall *slots = room <= (size_t)PY_SSIZE_T_MAX / sizeof *slots ? PyMem_Malloc(room * sizeof *slots) : NULL;
        if (slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (size_t i = 0; i < self->length; i++) {
            slots[i] = self->slots[(self->first + i) & (self->room - 1)];
        }
        PyMem_Free(self->slots);
        self->slots = slots;
        self->room = room;
        self->first = 0;
    }
    self->slots[(self->first + self->length) & (self->room - 1)] = *call;
    self->length += 1;
    return 0;
}

/* Take the oldest call out; the caller owns it then. False: there is none. */
static bool
portal_calls_take(PortalCalls *self, PortalCall *call)
{
    if (self->length == 0) {
        return false;
    }
    *call = self->slots[self->first];
    self->first = (self->first + 1) & (self->room - 1);
    self->length -= 1;
    if (self->length == 0 && self->room > ROOM_KEPT) {
        PyMem_Free(self->slots);
        self->slots = NULL;
        self->room = self->first = 0;
    }
    return true;
}

static bool
take_locked(PortalCalls *self, PortalCall *call)
{
    bool found;
    Py_BEGIN_CRITICAL_SECTION(self);
    found = portal_calls_take(self, call);
    Py_END_CRITICAL_SECTION();
    return found;
}

/* ---- for any thread */

PyDoc_STRVAR(call_doc, "call(fn, /, *args)\n--\n\n"
                       "Hand in `fn(*args)`. Raises what `refuse` raises if it is closed or full.");

static PyObject *
portal_calls_call(PortalCalls *self, PyObject *const *args, Py_ssize_t n)
{
    if (n < 1 || !PyCallable_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "call() takes a function and its arguments%s%.100s", n < 1 ? "" : ", not a ",
                     n < 1 ? "" : Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    if (!self->open || self->length >= (size_t)self->limit) {
        PyObject *refused = PyObject_CallNoArgs(self->refuse);
        if (refused == NULL) {
            return NULL;
        }
        Py_DECREF(refused); /* it did not raise: the call is accepted */
    }
    PortalCall call;
    int failed;
    bool posted = true;
    if (portal_call_make(&call, args, n) < 0) {
        return NULL;
    }
    Py_BEGIN_CRITICAL_SECTION(self);
    failed = portal_calls_put(self, &call);
    if (!failed) {
        posted = self->posted;
        self->posted = true;
    }
    Py_END_CRITICAL_SECTION();
    if (failed) {
        portal_call_drop(&call);
        return NULL;
    }
    if (!posted) {
        PyObject *done = PyObject_CallNoArgs(self->tell);
        if (done == NULL) {
            self->posted = false; /* the next call tries again */
            return NULL;
        }
        Py_DECREF(done);
    }
    Py_RETURN_NONE;
}

/* ---- for the thread of the runtime */

/* An error of a call goes to `failed(fn, error)`. 0, or -1 with an exception set: it is no Exception, or `failed`
 * raised. */
static int
notify_failed(PortalCalls *self, PyObject *function)
{
    PyObject *error = taken_error();
    if (!PyErr_GivenExceptionMatches(error, PyExc_Exception)) {
        PyErr_SetRaisedException(error);
        return -1;
    }
    PyObject *args[] = {function, error};
    PyObject *done = PyObject_Vectorcall(self->failed, args, 2, NULL);
    Py_DECREF(error);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

PyDoc_STRVAR(
    run_doc,
    "run(n, /)\n--\n\n"
    "Run the oldest `n` calls, or as many as there are. True: calls are left, and the caller must notify the pump.");

static PyObject *
portal_calls_run(PortalCalls *self, PyObject *number)
{
    Py_ssize_t n = PyLong_AsSsize_t(number);
    if (n == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int failed = 0;
    bool left;
    PortalCall call;
    while (!failed && n-- > 0 && take_locked(self, &call)) { /* CALLS-2 */
        PyObject *result = portal_call_run(&call);
        failed = result == NULL ? notify_failed(self, call.function) : 0;
        Py_XDECREF(result);
        portal_call_drop(&call);
    }
    Py_BEGIN_CRITICAL_SECTION(self);
    left = self->posted = self->length > 0; /* CALLS-1: the caller notifies the pump */
    Py_END_CRITICAL_SECTION();
    return failed ? NULL : PyBool_FromLong(left);
}

PyDoc_STRVAR(drop_doc, "drop()\n--\n\nDrop every call that has not run.");

static PyObject *
portal_calls_drop(PortalCalls *self, PyObject *Py_UNUSED(args))
{
    PortalCall call;
    while (take_locked(self, &call)) {
        portal_call_drop(&call);
    }
    Py_RETURN_NONE;
}

static Py_ssize_t
portal_calls_length(PortalCalls *self)
{
    return (Py_ssize_t)self->length;
}

/* ---- the type */

static PyObject *
portal_calls_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"limit", "tell", "refuse", "failed", NULL};
    Py_ssize_t limit;
    PyObject *tell, *refuse, *failed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nOOO:PortalCalls", names, &limit, &tell, &refuse, &failed)) {
        return NULL;
    }
    PortalCalls *self = (PortalCalls *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->limit = limit < 0 ? 0 : limit;
        self->tell = Py_NewRef(tell);
        self->refuse = Py_NewRef(refuse);
        self->failed = Py_NewRef(failed);
    }
    return (PyObject *)self;
}

static int
portal_calls_traverse(PortalCalls *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->tell);
    Py_VISIT(self->refuse);
    Py_VISIT(self->failed);
    for (size_t i = 0; i < self->length; i++) {
        const PortalCall *call = &self->slots[(self->first + i) & (self->room - 1)];
        Py_VISIT(call->function);
        for (Py_ssize_t j = 0; j < portal_call_held(call); j++) {
            Py_VISIT(call->args[j]);
        }
    }
    return 0;
}

/* The callbacks stay, because a later call must still be refused. The collector breaks their cycles at the owner. */
static int
portal_calls_clear(PortalCalls *self)
{
    self->open = false;
    PortalCall call;
    while (portal_calls_take(self, &call)) {
        portal_call_drop(&call);
    }
    return 0;
}

static void
portal_calls_dealloc(PortalCalls *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    portal_calls_clear(self);
    PyMem_Free(self->slots);
    Py_XDECREF(self->tell);
    Py_XDECREF(self->refuse);
    Py_XDECREF(self->failed);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef portal_calls_methods[] = {
    {"call", (PyCFunction)(void (*)(void))portal_calls_call, METH_FASTCALL, call_doc},
    {"run", (PyCFunction)portal_calls_run, METH_O, run_doc},
    {"drop", (PyCFunction)portal_calls_drop, METH_NOARGS, drop_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef portal_calls_members[] = {
    {"open", T_BOOL, offsetof(PortalCalls, open), 0, "Whether it takes calls."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot portal_calls_slots[] = {
    {Py_tp_doc, (void *)"Calls from other threads, which the thread of the runtime runs."},
    {Py_tp_new, (void *)portal_calls_new},
    {Py_tp_traverse, (void *)portal_calls_traverse},
    {Py_tp_clear, (void *)portal_calls_clear},
    {Py_tp_dealloc, (void *)portal_calls_dealloc},
    {Py_tp_methods, portal_calls_methods},
    {Py_tp_members, portal_calls_members},
    {Py_sq_length, (void *)portal_calls_length},
    {0, NULL},
};

static PyType_Spec portal_calls_spec = {
    .name = "bursar._native.PortalCalls",
    .basicsize = sizeof(PortalCalls),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = portal_calls_slots,
};

int
portal_calls_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &portal_calls_spec, NULL);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, "PortalCalls", type);
    Py_XDECREF(type);
    return failed;
}
