/* Letting a coroutine run to its next request: in its context, with what it waited for or with an error, metered or not. To
 * be compiled into the poll (poll.c).
 */

#pragma once

#include "python/cpython/context_fast.h"
#include "python/drive/driver.h"
#include "python/law/task.h"
#include "python/memory/stretch.h"

/* What the coroutine raised, taken from the thread's state: that is how the functions below report it. */
static PySendResult
fallen(PyObject **error)
{
    *error = taken_error();
    return PYGEN_ERROR;
}

/* A StopIteration, which is given away, as it comes out of a generator or a coroutine. Thrown as it is it would end the
 * `await`, from 3.12 on, as if all had gone well. */
COLD static PyObject *
stopped(PyObject *stop)
{
    PyErr_SetString(PyExc_RuntimeError, "coroutine raised StopIteration");
    PyObject *error = PyErr_GetRaisedException();
    PyException_SetContext(error, Py_NewRef(stop));
    PyException_SetCause(error, stop);
    return error;
}

/* Raise `error`, which is given away, at the await point. */
NOINLINE static PySendResult throw(Driver * self, PyObject *work, PyObject *error, PyObject **result)
{
    ModuleState *st = self->kernel->st;
    PyObject *usual = st->Cancelled; /* which is no StopIteration */
    if ((PyObject *)Py_TYPE(error) != usual && PyErr_GivenExceptionMatches(error, PyExc_StopIteration)) {
        error = stopped(error);
    }
    PyObject *args[] = {work, error};
    *result = PyCoro_CheckExact(work) ? PyObject_Vectorcall(st->coroutine_throw, args, 2, NULL)
                                      : PyObject_CallMethodOneArg(work, st->str_throw, error);
    Py_DECREF(error);
    if (*result != NULL) {
        return PYGEN_NEXT;
    }
    PyObject *stop = taken_error();
    if ((PyObject *)Py_TYPE(stop) == usual || !PyErr_GivenExceptionMatches(stop, PyExc_StopIteration)) {
        *result = stop;
        return PYGEN_ERROR;
    }
    PyObject *value_of = ((PyStopIterationObject *)stop)->value; /* NULL: it was made without its __init__ */
    *result = Py_NewRef(value_of != NULL ? value_of : Py_None);
    Py_DECREF(stop);
    return PYGEN_RETURN;
}

/* Resume a coroutine that awaits a request: that opens the box which the result is in. `value` is given away. */
static inline PySendResult
send_boxed(Driver *self, PyObject *work, PyObject *value, PyObject **result)
{
    if (Py_REFCNT(self->resume) > 1) { /* whoever drives a coroutine by hand has kept it, and may still pass it on */
        Resume *another = resume_new(self->kernel->st);
        if (another == NULL) {
            Py_XDECREF(value);
            return PYGEN_ERROR;
        }
        Py_SETREF(self->resume, another);
    }
    Py_XSETREF(self->resume->value, value);
    return coroutine_send(work, (PyObject *)self->resume, result);
}

/* The coroutine begins. Most end where they began; one that does not is aside from then on, while its task lives. */
static inline PySendResult
send_first(Kernel *k, Task *task, PyObject *work, PyObject **result)
{
    task->started = 1;
    task->by_generator = 0;
    PySendResult status = coroutine_send(work, Py_None, result);
    if (status == PYGEN_NEXT && PyCoro_CheckExact(work)) {
        gc_aside_move(&k->gc_aside, work);
    }
    return status;
}

/* A generator in the coroutine yielded a request by hand, and gets the plain result. */
NOINLINE static PySendResult
send_by_generator(Task *task, PyObject *work, PyObject *value, PyObject **result)
{
    task->by_generator = 0;
    return PyIter_Send(work, value != NULL ? value : Py_None, result);
}

/* Nobody would open a box. `value` is given away. */
static inline PySendResult
send_fast(Kernel *k, Task *task, PyObject *work, PyObject *value, PyObject **result)
{
    PySendResult status =
        !task->started ? send_first(k, task, work, result) : send_by_generator(task, work, value, result);
    Py_XDECREF(value);
    return status;
}

/* Whether somebody may be told when a coroutine goes. */
static inline bool
is_watched(const PyObject *work)
{
    Py_ssize_t at = Py_TYPE(work)->tp_weaklistoffset;
    return at <= 0 || *(PyObject *const *)(const void *)((const char *)work + at) != NULL;
}

/* Whether nothing of the program's runs when the task ends with this: it came to a number or to nothing, whose end runs no
 * code, and nobody hears of it but, perhaps, who waits for the last child. */
static inline bool
is_unobserved_end(const Task *task, const PyObject *result)
{
    const Nursery *nursery = task->nursery;
    bool plain =
        (result == Py_None || PyLong_CheckExact(result)) && task->extra == NULL && task->phase == LAW_PHASE_IDLE;
    bool heard = nursery->ends != NULL || nursery->ends_waiter != NULL ||
                 (nursery->joining != NULL && !is_task(nursery->joining));
    return plain && !heard && task->work != NULL && !is_watched(task->work);
}

/* Whether nothing of the program's runs when what the coroutine came to is seen to: a request that it stopped at, or the
 * end of the task, which a meter may turn into a failure. */
static inline bool
is_quiet(const Driver *self, const Task *task, PySendResult status, const PyObject *result)
{
    if (self->kernel->observer != NULL || status == PYGEN_ERROR) {
        return false;
    }
    if (!LIKELY(status == PYGEN_NEXT)) {
        return self->meter == NULL && is_unobserved_end(task, result);
    }
    const RequestVT *vt = is_request(result) ? ((const Request *)result)->vt : NULL;
    return vt != NULL && vt->quiet;
}

/* The code has stopped, with `status` and *result, and its task leaves the context that it ran in, which is given away. */
static ALWAYS_INLINE PySendResult
leave(Driver *self, Task *task, PyObject *context, PySendResult status, PyObject **result)
{
    Kernel *k = self->kernel;
    if ((is_quiet(self, task, status, *result) ? context_pause(k, task, context) : context_exit(k, task, context)) <
        0) {
        if (status == PYGEN_ERROR) {
            PyErr_Clear(); /* what it raised matters more */
        } else {
            Py_CLEAR(*result);
            status = fallen(result);
        }
    }
    return status;
}

/* Let the coroutine run to its next request. `value` and `error` are given away. *result is that request, what the
 * coroutine returned or, PYGEN_ERROR, what it raised: a new reference. */
static ALWAYS_INLINE PySendResult
resume(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    PySendResult status;
    Kernel *k = self->kernel;
    PyObject *context = context_enter(k, task), *work = Py_NewRef(task->work);
    if (context == NULL) {
        Py_DECREF(work);
        Py_XDECREF(value);
        Py_XDECREF(error);
        return fallen(result);
    }
    if (!LIKELY(error == NULL)) {
        Py_XDECREF(value);
        status = throw(self, work, error, result);
    } else {
        bool boxed = task->started && !task->by_generator;
        status = boxed ? send_boxed(self, work, value, result) : send_fast(k, task, work, value, result);
        if (status == PYGEN_ERROR) {
            fallen(result);
        }
    }
    Py_DECREF(work);
    return leave(self, task, context, status, result);
}

/* The same where memory is metered. The meter is told before and after, and may have an error raised at the await
 * point, in place of what the coroutine asks for, or in place of the error that it ended with. */
NOINLINE static PySendResult
resume_metered(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    for (;;) {
        if (metered_enter(self, task) < 0) {
            Py_XDECREF(value);
            Py_XDECREF(error);
            return fallen(result);
        }
        PySendResult status = resume(self, task, value, error, result);
        PyObject *ended = status == PYGEN_ERROR ? *result : NULL;
        PyObject *instead = status == PYGEN_NEXT ? metered_leave(self, task) : metered_end(self, task, ended);
        if (instead == Py_None) {
            Py_DECREF(instead);
            return status;
        }
        if (status != PYGEN_ERROR) {
            Py_CLEAR(*result);
        }
        if (instead == NULL) {
            Py_XDECREF(ended);
            return fallen(result);
        }
        if (status != PYGEN_NEXT) {
            PyException_SetCause(instead, ended);
            *result = instead;
            return PYGEN_ERROR;
        }
        value = NULL;
        error = instead;
    }
}

/* One or the other. Where nobody meters, what the coroutine awaits may be answered on the spot: see request.c. */
static ALWAYS_INLINE PySendResult
go_straight_on(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    Kernel *k = self->kernel;
    if (!LIKELY(self->meter == NULL)) {
        return resume_metered(self, task, value, error, result);
    }
    k->answers = true;
    PySendResult status = resume(self, task, value, error, result);
    k->answers = false;
    return status;
}
