/* Cancellation, the fast paths: many tasks are cancelled together. The slow twins are in cancel.c: `cancel_move` counts
 * a request in the task, `cancelled_new` makes an error, and `begin_draining` walks the scopes.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/task.h"

/* Whether a request needs no TaskExtra (CANCEL-5): it is for a whole task without one, and its nursery has the
 * reason. */
static inline bool
is_plain_request(const PyObject *scope, const Task *task, const PyObject *reason)
{
    return FAST_PATHS && is_task(scope) && task->extra == NULL && reason == task->nursery->why;
}

/* Whether the class makes and frees its objects like BaseException. A program can add methods to it that change
 * this. */
static inline bool
is_plain_class(PyTypeObject *type)
{
    const PyTypeObject *base = (PyTypeObject *)PyExc_BaseException;
    return FAST_PATHS && type->tp_new == base->tp_new && type->tp_init == base->tp_init && type->tp_finalize == NULL &&
           type->tp_del == NULL && type->tp_weaklistoffset == 0;
}

/* Take the cached Cancelled (`cancel_reuse`), if it has this reason. New reference; NULL: there is none. */
static inline PyObject *
take_spare(Kernel *k, PyObject *reason)
{
    PyObject *spare = k->caches.cancel_spare;
    bool fits = spare != NULL && PyTuple_GET_ITEM(k->caches.cancel_args, 0) == reason && is_plain_class(Py_TYPE(spare));
    if (fits) {
        k->caches.cancel_spare = NULL;
    }
    return fits ? spare : NULL;
}

/* Whether the error equals a new one in everything but its traceback, and has no other reference. */
static inline bool
is_reusable(const Kernel *k, PyObject *error)
{
    const PyBaseExceptionObject *fields = (PyBaseExceptionObject *)error;
    return Py_REFCNT(error) == 1 && (PyObject *)Py_TYPE(error) == k->st->Cancelled && is_plain_class(Py_TYPE(error)) &&
           fields->args == k->caches.cancel_args && fields->dict == NULL && fields->notes == NULL &&
           fields->context == NULL && fields->cause == NULL && !fields->suppress_context;
}

/* Whether a delivery needs no TaskExtra (CANCEL-5): the task has no scope but itself, and runs, so that its timer may
 * be promised. With an observer the slow path is taken, because arming the timer is an event. */
static inline bool
is_plain_delivery(const Kernel *k, const Task *task)
{
    return FAST_PATHS && task->extra == NULL && task->phase == LAW_PHASE_REQUESTED && k->observer == NULL &&
           k->current == task;
}

/* What `begin_draining` does in that case. */
static inline int
begin_draining_fast(Kernel *k, Task *task)
{
    law_phase_advance(&task->phase, LAW_PHASE_DRAINING);
    task->cancel_pending = 0;
    return cleanup_promise(k, task);
}
