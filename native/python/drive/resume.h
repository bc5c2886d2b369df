/* Resuming a coroutine: it runs in its context until its next request, with an answer or an error, metered or not.
 *
 * poll.c compiles these functions into the poll. They have no slow twin, so they are no fast path.
 */

#pragma once

#include "python/cpython/context_fast.h"
#include "python/drive/driver.h"
#include "python/law/pool.h"
#include "python/law/task.h"
#include "python/memory/stretch.h"

/* Take what the coroutine raised from the thread's state: the functions below report an error in *error. */
static PySendResult
take_error(PyObject **error)
{
    *error = taken_error();
    return PYGEN_ERROR;
}

/* The RuntimeError that stands for a StopIteration, as generators and coroutines raise it. Steals the reference.
 * From 3.12 on, a StopIteration that is thrown into an `await` would end the `await` as if it had succeeded. */
COLD static PyObject *
stop_as_runtime_error(PyObject *stop)
{
    PyErr_SetString(PyExc_RuntimeError, "coroutine raised StopIteration");
    PyObject *error = PyErr_GetRaisedException();
    PyException_SetContext(error, Py_NewRef(stop));
    PyException_SetCause(error, stop);
    return error;
}

/* Raise `error` at the await point. Steals the reference. */
NOINLINE static PySendResult throw(Driver * self, PyObject *work, PyObject *error, PyObject **result)
{
    ModuleState *st = self->kernel->st;
    PyObject *usual = st->Cancelled; /* is not a StopIteration */
    if ((PyObject *)Py_TYPE(error) != usual && PyErr_GivenExceptionMatches(error, PyExc_StopIteration)) {
        error = stop_as_runtime_error(error);
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
    PyObject *value_of = ((PyStopIterationObject *)stop)->value; /* NULL: made without `__init__` */
    *result = Py_NewRef(value_of != NULL ? value_of : Py_None);
    Py_DECREF(stop);
    return PYGEN_RETURN;
}

/* Resume a coroutine that awaits a request. The result is sent in a Resume, out of which the request takes it. Steals
 * `value`. */
static inline PySendResult
send_boxed(Driver *self, PyObject *work, PyObject *value, PyObject **result)
{
    if (Py_REFCNT(self->resume) > 1) { /* the program drives a coroutine itself, and kept it */
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

/* Start the coroutine. Most end in their first poll. The collector does not look at the others while their task lives
 * (gc_aside.c). */
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

/* Resume a generator inside the coroutine that yielded the request itself: it gets the plain result, without a
 * Resume. */
NOINLINE static PySendResult
send_by_generator(Task *task, PyObject *work, PyObject *value, PyObject **result)
{
    task->by_generator = 0;
    return PyIter_Send(work, value != NULL ? value : Py_None, result);
}

/* Send without a Resume: no request would take the result out of it. Steals `value`. */
static inline PySendResult
send_unboxed(Kernel *k, Task *task, PyObject *work, PyObject *value, PyObject **result)
{
    PySendResult status =
        !task->started ? send_first(k, task, work, result) : send_by_generator(task, work, value, result);
    Py_XDECREF(value);
    return status;
}

/* Whether weak references to the coroutine may call code when it is freed. */
static inline bool
has_weakrefs(const PyObject *work)
{
    Py_ssize_t at = Py_TYPE(work)->tp_weaklistoffset;
    return at <= 0 || *(PyObject *const *)(const void *)((const char *)work + at) != NULL;
}

/* Whether the end of the task with this result runs no code of the program: the result is a number or None, and at most
 * the task that waits for the last child is woken. */
static inline bool
is_unobserved_end(const Task *task, const PyObject *result)
{
    const Nursery *nursery = task->nursery;
    bool plain =
        (result == Py_None || PyLong_CheckExact(result)) && task->extra == NULL && task->phase == LAW_PHASE_IDLE;
    bool observed = nursery->ends != NULL || nursery->ends_waiter != NULL ||
                    (nursery->joining != NULL && !is_task(nursery->joining));
    return plain && !observed && task->work != NULL && !has_weakrefs(task->work);
}

/* Whether the driver can handle what the coroutine stopped with, a request or the end of the task, without running
 * code of the program. A memory meter may turn an end into a failure. */
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

/* The code has stopped, with `status` and *result: leave the context that it ran in. Steals `context`. */
static ALWAYS_INLINE PySendResult
leave(Driver *self, Task *task, PyObject *context, PySendResult status, PyObject **result)
{
    Kernel *k = self->kernel;
    if ((is_quiet(self, task, status, *result) ? context_pause(k, task, context) : context_exit(k, task, context)) <
        0) {
        if (status == PYGEN_ERROR) {
            PyErr_Clear(); /* the error of the coroutine matters more */
        } else {
            Py_CLEAR(*result);
            status = take_error(result);
        }
    }
    return status;
}

/* Let the coroutine run to its next request. Steals `value` and `error`. *result is a new reference to the request,
 * to what the coroutine returned, or with PYGEN_ERROR to what it raised. */
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
        return take_error(result);
    }
    if (!LIKELY(error == NULL)) {
        Py_XDECREF(value);
        status = throw(self, work, error, result);
    } else {
        bool boxed = task->started && !task->by_generator;
        status = boxed ? send_boxed(self, work, value, result) : send_unboxed(k, task, work, value, result);
        if (status == PYGEN_ERROR) {
            take_error(result);
        }
    }
    Py_DECREF(work);
    return leave(self, task, context, status, result);
}

/* The same where memory is metered. The meter is called before and after. It may return an error, which is raised at
 * the await point instead of answering the request, or replaces the outcome of the coroutine. */
NOINLINE static PySendResult
resume_metered(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    for (;;) {
        if (metered_enter(self, task) < 0) {
            Py_XDECREF(value);
            Py_XDECREF(error);
            return take_error(result);
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
            return take_error(result);
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

/* The same where processor time is measured: around the code, and charged to the task by the Python side. */
NOINLINE static PySendResult
resume_measured(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    PyObject *begun = PyObject_CallMethod((PyObject *)self, "_cpu_now", NULL);
    if (begun == NULL) {
        Py_XDECREF(value);
        Py_XDECREF(error);
        return take_error(result);
    }
    PySendResult status =
        self->metered ? resume_metered(self, task, value, error, result) : resume(self, task, value, error, result);
    bool failed = context_leave(self->kernel) < 0 || driver_call(self, "_charge_cpu", (PyObject *)task, begun) < 0;
    Py_DECREF(begun);
    if (failed) {
        Py_XDECREF(*result);
        return take_error(result);
    }
    return status;
}

/* Whether a budget of the task or above it states processor time. */
static inline bool
is_measured(const Driver *self, const Task *task)
{
    return self->measured && pools_measured(task->terms->pools);
}

/* Resume the task, metered, measured or not. In a plain run, a request may be answered where it is awaited
 * (request_fast.h). */
static ALWAYS_INLINE PySendResult
resume_task(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    Kernel *k = self->kernel;
    if (!LIKELY(self->special == 0)) {
        if (is_measured(self, task)) {
            return resume_measured(self, task, value, error, result);
        }
        if (self->metered) {
            return resume_metered(self, task, value, error, result);
        }
    }
    k->answers = true;
    PySendResult status = resume(self, task, value, error, result);
    k->answers = false;
    return status;
}
