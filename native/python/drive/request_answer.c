/* The answer to a request: it is billed, then performed. After `Coroutines.resume` in drive/coroutine.py.
 *
 * A plain checkpoint does not come here: `checkpoint_fast` in poll_fast.h handles it. A request that is written in
 * Python is billed and performed by its methods.
 */

#include "python/drive/request_answer.h"
#include "python/cpython/context.h"
#include "python/drive/driver.h"
#include "python/drive/poll.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/ledger.h"
#include "python/law/ledger_fast.h"
#include "python/law/observer.h"
#include "python/ops/request.h"

#include <time.h>

/* Bill a request that is written in Python. */
COLD static BillResult
bill_by_method(Driver *self, Task *task, Request *request, PyObject **refusal)
{
    PyObject *row = PyObject_CallMethod((PyObject *)request, "bill", NULL);
    BillResult result = row == NULL ? BILL_ERROR : k_bill_row(self->kernel, task, row, refusal);
    Py_XDECREF(row);
    return result;
}

COLD static int
says_timed(Request *request)
{
    PyObject *timed = PyObject_GetAttrString((PyObject *)request, "timed");
    int yes = timed == NULL ? -1 : PyObject_IsTrue(timed);
    Py_XDECREF(timed);
    return yes;
}

COLD int
driver_refused(Driver *self, Task *task, PyObject **error)
{
    Kernel *k = self->kernel;
    if (k->current != task || PyErr_ExceptionMatches(PyExc_AssertionError) ||
        !PyErr_ExceptionMatches(PyExc_Exception)) {
        return -1;
    }
    *error = PyErr_GetRaisedException();
    if (k->observer != NULL && PyErr_GivenExceptionMatches(*error, k->st->CapabilityDenied)) {
        return k_note(k, "capability_denied", task, Py_NewRef(*error));
    }
    return 0;
}

/* Set the time of the kernel, as `Pump.now_ns` does. The clock of the machine is read without a Python frame. */
NOINLINE static int
look_at_clock(Driver *self)
{
#if defined(__linux__)
    Kernel *k = self->kernel;
    struct timespec read;
    if (self->start_ns >= 0 && clock_gettime(CLOCK_MONOTONIC, &read) == 0) { /* as `time.monotonic_ns` does */
        int64_t now_ns = (int64_t)read.tv_sec * 1000000000 + read.tv_nsec - self->start_ns;
        if (now_ns <= k->now_ns) {
            return 0;
        }
        k->now_ns = now_ns;
        return NOTE(k, "clock", k->current, PyLong_FromLongLong(now_ns));
    }
#endif
    PyObject *now = PyObject_CallNoArgs(self->clock);
    Py_XDECREF(now);
    return now == NULL ? -1 : 0;
}

/* Perform a request that was paid for. */
static inline AskResult
perform(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    Kernel *k = self->kernel;
    int timed = LIKELY(request->vt != NULL) ? request->vt->timed : says_timed(request);
    if (timed < 0) {
        return ASK_ERROR;
    }
    if (timed && self->clock != NULL && look_at_clock(self) < 0) { /* the poll may have taken long */
        return ASK_ERROR;
    }
    /* CLEANUP-3: if the task has to wait, its poll ends after it entered a queue, and must not fail then. */
    PyObject *result = cleanup_arm_promised(k) < 0 ? NULL
                       : LIKELY(request->vt != NULL && request->vt->perform != NULL)
                           ? request->vt->perform(k, task, request)
                           : request_perform(k, task, request);
    if (result == NULL) {
        return driver_refused(self, task, error) < 0 ? ASK_ERROR : ASK_ANSWERED;
    }
    if (result == k->st->SUSPENDED) {
        Py_DECREF(result);
        return ASK_SUSPENDED;
    }
    *value = result;
    return ASK_ANSWERED;
}

/* Bill a request that `k_bill_fast` did not. ASK_ANSWERED: it is paid, or *error is the refusal. */
NOINLINE static AskResult
bill(Driver *self, Task *task, Request *request, PyObject **error)
{
    if (context_leave(self->kernel) < 0) { /* the bill may cut off the task, which runs its code */
        return ASK_ERROR;
    }
    Py_XSETREF(task->pending, Py_NewRef((PyObject *)request));
    switch (request->vt != NULL ? k_bill(self->kernel, task, &request->vt->cost, NULL, error)
                                : bill_by_method(self, task, request, error)) {
    case BILL_PAID:
    case BILL_REFUSED:
        Py_CLEAR(task->pending);
        return ASK_ANSWERED;
    case BILL_SUSPENDED:
        return ASK_SUSPENDED;
    case BILL_CUT:
        return driver_call(self, "_close", (PyObject *)task, NULL) < 0 ? ASK_ERROR : ASK_SUSPENDED;
    case BILL_ERROR:
    default:
        return ASK_ERROR;
    }
}

/* Bill and perform one request: *value, or *error to raise at the await point; both new references. */
static inline AskResult
ask(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    if (!LIKELY(request->vt != NULL && k_bill_fast(self->kernel, task, &request->vt->cost))) {
        AskResult billed = bill(self, task, request, error);
        if (billed != ASK_ANSWERED || *error != NULL) {
            return billed;
        }
    }
    return perform(self, task, request, value, error);
}

AskResult
driver_answer(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    AskResult asked = ASK_ANSWERED;
    if (task->cancel_pending /* a Cancelled may be made in Python (CONTEXT-3) */
        && (context_leave(self->kernel) < 0 || cancel_deliver(self->kernel, task, error) < 0)) {
        Py_CLEAR(*value);
        asked = ASK_ERROR;
    } else if (*error == NULL) {
        asked = ask(self, task, request, value, error);
    }
    Py_DECREF(request);
    return asked;
}
