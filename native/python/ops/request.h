/* Requests: what a task asks of its kernel (request.c). After src/bursar/request.py.
 *
 * Every operation in C fills a RequestVT and derives its type from `Request` or `Operation`. The driver performs
 * requests.
 */

#pragma once

#include "python/law/records.h"

/* The functions of a request that is written in C. All may fail: -1 or NULL with an exception set. */
typedef struct RequestVT {
    LawCost cost;
    bool timed;
    bool quiet; /* performing it runs no code of the program, so the thread may stay in the task's context */
    /* Returns the result (new reference), or SUSPENDED if the poll is over. A NULL in the table: it is an operation. */
    PyObject *(*perform)(Kernel *, Task *, Request *);
    int (*ready)(Kernel *, Task *, Request *); /* 1 or 0 */
    PyObject *(*take)(Kernel *, Task *, Request *);
    int (*enlist)(Kernel *, Request *, PyObject *waiter); /* waiter: a Task that waits bare, or an Entry */
    int (*enlisted)(Kernel *, Request *);                 /* or NULL */
    int (*delist)(Kernel *, Request *, PyObject *waiter);
    /* The kernel in which `take` would succeed now; borrowed. NULL: it may have to wait, or may be refused. A NULL
     * in the table: the driver always answers. */
    Kernel *(*ready_now_in)(const Request *);
} RequestVT;

/* How far the latest `await` of a request has come. */
typedef enum RequestStep {
    REQUEST_NEW,     /* no task awaited it, and no select has it as a case */
    REQUEST_BEGUN,   /* `__await__` was called: the next step is the first of an `await` */
    REQUEST_YIELDED, /* an `await` yielded it, and not a generator by itself */
    REQUEST_USED,    /* it was answered, or the driver has it; it may be awaited again */
} RequestStep;

struct Request {
    PyObject_HEAD
    const RequestVT *vt; /* NULL: written in Python */
    uint8_t step;        /* a RequestStep */
};

extern PyType_Spec request_spec, operation_spec, resume_spec;

/* Perform any request. New reference to the result or to SUSPENDED (the poll is over); NULL with an exception set. */
PyObject *request_perform(Kernel *k, Task *task, Request *request);
/* What `perform` returns once the kernel knows how the poll ended: SUSPENDED, or NULL if that failed. */
static inline PyObject *
request_suspended(Kernel *k, int failed)
{
    return failed < 0 ? NULL : Py_NewRef(k->st->SUSPENDED);
}
PyObject *request_take_nothing(Kernel *k, Task *task, Request *request); /* a `take` whose result is None */
/* `waiter` no longer waits for the operation. 0, or -1 with an exception set. */
int operation_delist(Kernel *k, PyObject *operation, PyObject *waiter);

/* What the driver sends to resume a coroutine. One per driver: the request takes the value out at once. */
typedef struct Resume {
    PyObject_HEAD
    PyObject *value;
    PyObject *stop; /* a StopIteration with the value None, for the next answer; or NULL */
} Resume;

Resume *resume_new(ModuleState *st);
void resume_dealloc(Resume *self);

static inline bool
is_resume(const PyObject *sent)
{
    return Py_TYPE(sent)->tp_dealloc == (destructor)resume_dealloc;
}

/* The result that was sent: new reference. It is taken out of a Resume; any other object is the result itself. */
static inline PyObject *
resumed_with(PyObject *sent)
{
    if (!is_resume(sent)) {
        return Py_NewRef(sent);
    }
    PyObject *value = ((Resume *)sent)->value;
    ((Resume *)sent)->value = NULL;
    return value != NULL ? value : Py_NewRef(Py_None);
}

/* The request is about to be freed and was never awaited: the program forgot `await`, and gets a RuntimeWarning. It runs
 * code of the program. */
void request_warn_forgotten(const Request *self);

/* For destructors, while the request still holds what it refers to. */
static inline void
request_check_used(const Request *self)
{
    if (!LIKELY(self->step != REQUEST_NEW)) {
        request_warn_forgotten(self);
    }
}

int request_traverse(PyObject *self, visitproc visit, void *arg);
void request_dealloc(PyObject *self);                     /* both for requests that hold nothing */
PyObject *thrown_of(PyObject *const *args, Py_ssize_t n); /* the arguments of `throw`, as an exception: new reference */
void raise_stop(PyObject *value);                         /* StopIteration with a value, which it steals */
PyObject *as_iteration(
    PySendResult status,
    PyObject *result); /* the result of a send, as `__next__` gives it: the end raises StopIteration */
/* The same for a call of `send`, by the driver or by the program. */
PyObject *as_answer(PyObject *sent, PySendResult status, PyObject *result);
PySendResult request_send(PyObject *self, PyObject *sent, PyObject **result);
PyObject *request_await(PyObject *self); /* `__await__` */
PyObject *request_iter(PyObject *self);  /* `__iter__`, which only the iterator that `__await__` returned has */
/* Whether this step is one of an `await`. False with TypeError set: the program iterates a request by mistake. */
bool request_may_step(Request *self);
PyObject *request_next(PyObject *self);
PyObject *nursery_block_next(PyObject *self); /* `__next__` of a NurseryBlock, which is more than a request */

/* Whether the object is surely a request: its `__next__` is that of a request. This is cheaper than a look through
 * its bases. False is no proof: a class in Python may have a `__next__` of its own. */
static inline bool
is_request(const PyObject *thing)
{
    iternextfunc next = Py_TYPE(thing)->tp_iternext;
    return next == request_next || next == nursery_block_next;
}
int refuse_thread(const Kernel *k, const char *what); /* -1 with ScopeMisuse set: see `require_thread` */
PyObject *operation_perform(Kernel *k, Task *task, Request *request);
PyObject *cost_row(const LawCost *cost); /* a cost as Python writes it: new tuple of pairs */
