/* Cancellation, the fast paths: a crowd that is cancelled at once. The slow twins are in cancel.c: `cancelled_new` calls the
 * class, and `begin_draining` walks the scopes.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/task.h"

/* Whether making and unmaking a Cancelled is what it is for any exception: nobody has changed the class. */
static inline bool
is_plain_class(PyTypeObject *type)
{
    const PyTypeObject *base = (PyTypeObject *)PyExc_BaseException;
    return FAST_PATHS && type->tp_new == base->tp_new && type->tp_init == base->tp_init && type->tp_finalize == NULL &&
           type->tp_del == NULL && type->tp_weaklistoffset == 0;
}

/* The Cancelled that has come back (`cancel_spent`), if it has this reason; new reference. NULL: there is none. */
static inline PyObject *
spare_for(Kernel *k, PyObject *reason)
{
    PyObject *spare = k->caches.cancel_spare;
    bool fits = spare != NULL && PyTuple_GET_ITEM(k->caches.cancel_args, 0) == reason && is_plain_class(Py_TYPE(spare));
    if (fits) {
        k->caches.cancel_spare = NULL;
    }
    return fits ? spare : NULL;
}

/* Whether nobody could tell the error from a new one, but for its traceback. */
static bool
is_as_new(const Kernel *k, PyObject *error)
{
    const PyBaseExceptionObject *fields = (PyBaseExceptionObject *)error;
    return Py_REFCNT(error) == 1 && (PyObject *)Py_TYPE(error) == k->st->Cancelled && is_plain_class(Py_TYPE(error)) &&
           fields->args == k->caches.cancel_args && fields->dict == NULL && fields->notes == NULL &&
           fields->context == NULL && fields->cause == NULL && !fields->suppress_context;
}

/* Whether all that follows from a delivery can go without saying (CANCEL-5): the task has no scope but itself, and is
 * the one that runs, so that its timer may be promised. An observer is told, and hears of a timer that is armed. */
static inline bool
is_bare(const Kernel *k, const Task *task)
{
    return FAST_PATHS && task->extra == NULL && task->phase == LAW_PHASE_REQUESTED && k->observer == NULL &&
           k->current == task;
}

static inline int
drain_bare(Kernel *k, Task *task)
{
    law_phase_advance(&task->phase, LAW_PHASE_DRAINING);
    task->cancel_pending = 0;
    return cleanup_promise(k, task);
}
