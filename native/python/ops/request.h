/* Requests: what a task asks of its kernel (request.c). After src/bursar/request.py.
 *
 * Every operation in C fills a RequestVT and derives its type from `Request` or `Operation`. The driver performs requests.
 */

#pragma once

#include "python/law/records.h"

/* A request that is written in C says here what it is. All of these may fail: -1 or NULL with an exception set. */
typedef struct RequestVT {
    LawCost cost;
    bool timed;
    bool quiet; /* performing it runs nothing of the program's: the thread may stay in the task's context */
    /* The result (new reference), or SUSPENDED once the kernel knows how the poll ended. NULL: an operation. */
    PyObject *(*perform)(Kernel *, Task *, Request *);
    int (*ready)(Kernel *, Task *, Request *); /* 1 or 0 */
    PyObject *(*take)(Kernel *, Task *, Request *);
    int (*enlist)(Kernel *, Request *, PyObject *waiter); /* who: a Task that waits bare, or an Entry */
    int (*enlisted)(Kernel *, Request *);                 /* or NULL */
    int (*delist)(Kernel *, Request *, PyObject *waiter);
    /* The kernel in which `take` would succeed here and now; borrowed. NULL: it might have to wait, or be refused, or
     * nobody knows. A NULL in the table: it is never asked. */
    Kernel *(*ready_now_in)(const Request *);
} RequestVT;

struct Request {
    PyObject_HEAD
    const RequestVT *vt; /* NULL: written in Python */
    bool awaited;        /* it was given out by `await`, and not by a generator that yields it */
};

extern PyType_Spec request_spec, operation_spec, resume_spec;

/* Perform any request. New reference, SUSPENDED once the poll is over, or NULL with an exception set. */
PyObject *request_perform(Kernel *k, Task *task, Request *request);
/* `waiter` no longer waits for the operation. 0, or -1 with an exception set. */
int operation_delist(Kernel *k, PyObject *operation, PyObject *waiter);

/* What a coroutine is resumed with. One per driver: the value is taken out before anything else can happen. */
typedef struct Resume {
    PyObject_HEAD
    PyObject *value;
    PyObject *stop; /* the StopIteration that says None, and was used before; or NULL */
} Resume;

Resume *resume_new(ModuleState *st);
void resume_dealloc(Resume *self);

static inline bool
is_resume(const PyObject *sent)
{
    return Py_TYPE(sent)->tp_dealloc == (destructor)resume_dealloc;
}

/* The result that was sent: new reference. Takes it out of a Resume; anything else is the result itself. */
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

int request_traverse(PyObject *self, visitproc visit, void *arg);
void request_dealloc(PyObject *self);                     /* both for requests that hold nothing */
PyObject *thrown_of(PyObject *const *args, Py_ssize_t n); /* what a `throw` was given, as an exception: new reference */
void raise_stop(PyObject *value);                         /* StopIteration with a value, which is given away */
PyObject *as_iteration(PySendResult status, PyObject *result); /* a send as a call: the end is a StopIteration */
/* The same for a send of the driver's or anybody's. */
PyObject *as_answer(PyObject *sent, PySendResult status, PyObject *result);
PySendResult request_send(PyObject *self, PyObject *sent, PyObject **result);
PyObject *request_next(PyObject *self);
PyObject *nursery_block_next(
    PyObject *self); /* that of a nursery's block, which is more than a request when it is left */

/* Whether it is a request, without a walk through its bases: only what derives from that type can be stepped so. False
 * does not mean that it is none: a class may have a `__next__` of its own. */
static inline bool
is_request(const PyObject *thing)
{
    iternextfunc next = Py_TYPE(thing)->tp_iternext;
    return next == request_next || next == nursery_block_next;
}
PyObject *operation_perform(Kernel *k, Task *task, Request *request);
PyObject *cost_row(const LawCost *cost); /* as Python writes it: new tuple of pairs */
