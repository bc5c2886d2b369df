/* One step: a decision, and one poll of one coroutine. After drive/coroutine.py.
 *
 * A poll enters the context of the task and resumes the coroutine (resume.h), then bills and performs the request
 * (request_answer.c), all without a Python frame. Rare ends (a task that is cut off, an error, a cancellation that the
 * task caught) are methods of the Python class that derives from `Driver`.
 *
 * The usual step goes from an answer to a checkpoint. `step_answered` compiles it as a whole, with the decision
 * (dispatch_fast.h) and the bill (ledger_fast.h). `poll` and `run` handle every poll.
 */

#include "python/drive/poll.h"
#include "python/cpython/context.h"
#include "python/drive/driver.h"
#include "python/drive/poll_fast.h"
#include "python/drive/request_answer.h"
#include "python/drive/resume.h"
#include "python/law/cancel.h"
#include "python/law/dispatch.h"
#include "python/law/dispatch_fast.h"
#include "python/law/ledger_fast.h"
#include "python/law/task.h"
#include "python/law/task_end.h"
#include "python/module/seam.h"
#include "python/ops/request.h"
#include "python/trace/events.h"

/* ---- the end of the coroutine */

int
driver_call(Driver *self, const char *name, PyObject *task, PyObject *what)
{
    PyObject *done = what != NULL ? PyObject_CallMethod((PyObject *)self, name, "OO", task, what)
                                  : PyObject_CallMethod((PyObject *)self, name, "O", task);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The coroutine returned `value`. Steals it. */
static inline int
returned(Driver *self, Task *task, PyObject *value)
{
    if (LIKELY(task->phase != LAW_PHASE_DRAINING)) {
        return k_returned(self->kernel, task, value);
    }
    int failed = driver_call(self, "_returned", (PyObject *)task, value);
    Py_DECREF(value);
    return failed;
}

/* The coroutine raised `error`. Steals it. A cancelled task usually ends with the `Cancelled` that was thrown into
 * it. */
NOINLINE static int
raised(Driver *self, Task *task, PyObject *error)
{
    bool usual = (PyObject *)Py_TYPE(error) == self->kernel->st->Cancelled;
    bool begun = self->begun != NULL && (!PyDict_CheckExact(self->begun) || PyDict_GET_SIZE(self->begun) > 0);
    if (usual && begun && driver_call(self, "close_begun_generators", (PyObject *)task, NULL) < 0) {
        Py_DECREF(error);
        return -1; /* `_raised` closes them in the other cases */
    }
    PyObject *reason = usual ? Py_XNewRef(cancelled_reason(error)) : NULL;
    int failed = reason != NULL ? k_finish(self->kernel, task, LAW_OUTCOME_CANCELLED, reason, NULL)
                                : driver_call(self, "_raised", (PyObject *)task, error);
    Py_XDECREF(reason);
    cancel_reuse(self->kernel, error);
    return failed < 0 ? -1 : 0;
}

/* ---- the poll */

/* What the coroutine yielded, if it is a request; otherwise a request that raises an error. Steals `thing`. */
static inline Request *
as_request(Driver *self, PyObject *thing)
{
    ModuleState *st = self->kernel->st;
    if (is_request(thing) || PyType_IsSubtype(Py_TYPE(thing), st->Request)) {
        return (Request *)thing;
    }
    PyObject *args[] = {thing}, *foreign = py_call(st, PY_as_request, args, 1);
    Py_DECREF(thing);
    return (Request *)foreign;
}

NOINLINE static PySendResult
resume_task_out_of_line(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    return resume_task(self, task, value, error, result);
}

/* Handle what the coroutine stopped with, and resume it, until the poll is over. Steals `thing`. */
NOINLINE static int
run(Driver *self, Task *task, PySendResult status, PyObject *thing)
{
    Kernel *k = self->kernel;
    for (;;) {
        PyObject *value = NULL, *error = NULL;
        if (is_plain_checkpoint(k, task, status, thing) && k_bill_fast(k, task, &LAW_OP)) {
            checkpoint_fast(k, task, thing);
            return 0;
        }
        if (status == PYGEN_RETURN) {
            return returned(self, task, thing);
        }
        if (status == PYGEN_ERROR) {
            return raised(self, task, thing);
        }
        Request *request = as_request(self, thing);
        if (request == NULL) {
            return -1;
        }
        bool awaited = request->step == REQUEST_YIELDED;
        if (!LIKELY(awaited && !task->by_generator)) {
            task->by_generator = !awaited;
        }
        request->step = REQUEST_USED;
        AskResult asked = driver_answer(self, task, request, &value, &error);
        if (asked != ASK_ANSWERED) {
            return asked == ASK_ERROR ? -1 : 0;
        }
        status = resume_task_out_of_line(self, task, value, error, &thing);
    }
}

/* Let a task pay the processor time that is due before its request is billed again. 0, or -1 with an exception set. */
static int
pay_cpu_due(Kernel *k, Task *task)
{
    if (task->extra == NULL || task->extra->cpu_due == 0) {
        return 0;
    }
    PyObject *done = PyObject_CallMethod((PyObject *)k, "pay_cpu_due", "O", (PyObject *)task);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Begin any poll: with an outcome that was decided before, an error, a request that could not be paid, or the start
 * of the coroutine. 1: continue with *value, *error and *unpaid; 0: the poll is over; -1: an exception is set. */
NOINLINE static int
begin(Driver *self, Task *task, PyObject **value, PyObject **error, PyObject **unpaid)
{
    TaskExtra *extra = task->extra;
    if (context_leave(self->kernel) < 0) {
        return -1;
    }
    if (extra != NULL && extra->ending != NULL) {
        PyObject *ending = Py_NewRef(extra->ending);
        PyObject *done = PyObject_CallMethod((PyObject *)self->kernel, "finish", "OO", (PyObject *)task, ending);
        Py_DECREF(ending);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    if (task_not_begun(task) && task_begin(self->kernel->st, task) < 0) {
        return -1;
    }
    if (task->cut) {
        return driver_call(self, "_close", (PyObject *)task, NULL);
    }
    *(task->raises ? error : value) = task->answer;
    *unpaid = task->pending;
    task->answer = task->pending = NULL;
    task->raises = 0;
    if (*error == NULL && task->cancel_pending && !task->effect && cancel_deliver(self->kernel, task, error) < 0) {
        Py_CLEAR(*value);
        Py_CLEAR(*unpaid);
        return -1;
    }
    task->effect = 0;
    if (!task->started && *error != NULL) {
        Py_CLEAR(*error);
        Py_CLEAR(*value);
        Py_CLEAR(*unpaid);
        return driver_call(self, "_close", (PyObject *)task, NULL);
    }
    if (*error != NULL) {
        Py_CLEAR(*unpaid);
    }
    if (*unpaid != NULL && pay_cpu_due(self->kernel, task) < 0) {
        Py_CLEAR(*value);
        Py_CLEAR(*unpaid);
        return -1;
    }
    if (task->work == NULL || task->context == NULL) { /* the spawn had no memory left for them */
        Py_CLEAR(*value);
        Py_CLEAR(*error);
        Py_CLEAR(*unpaid);
        PyErr_NoMemory();
        return raised(self, task, PyErr_GetRaisedException());
    }
    return 1;
}

/* The first poll of a task that `is_fresh`. 0, or -1 with an exception set. */
static inline int
poll_first(Driver *self, Task *task)
{
    PyObject *thing = NULL;
    if (task_begin(self->kernel->st, task) < 0) {
        return -1;
    }
    PySendResult status = resume_task(self, task, NULL, NULL, &thing);
    return status == PYGEN_RETURN ? returned(self, task, thing) : run(self, task, status, thing);
}

/* Any poll. 0, or -1 with an exception set. */
NOINLINE static int
poll(Driver *self, Task *task)
{
    if (LIKELY(is_fresh(task))) {
        return poll_first(self, task);
    }
    PyObject *value = NULL, *error = NULL, *thing = NULL;
    int goes_on = 1;
    if (is_answered(task)) {
        value = take_answer(task);
    } else {
        goes_on = begin(self, task, &value, &error, &thing);
    }
    if (goes_on <= 0) {
        return goes_on;
    }
    AskResult asked = thing != NULL ? driver_answer(self, task, (Request *)thing, &value, &error) : ASK_ANSWERED;
    if (asked != ASK_ANSWERED) {
        return asked == ASK_ERROR ? -1 : 0;
    }
    PySendResult status = resume_task_out_of_line(self, task, value, error, &thing);
    return run(self, task, status, thing);
}

int
driver_poll(Driver *self, Task *task)
{
    ModuleState *st = self->kernel->st;
    st->polls += 1;
    int failed = poll(self, task);
    st->polls -= 1;
    return failed;
}

/* ---- the step */

/* What follows the poll of a step: Ctrl-C, async generators that the collector found, the end of the step. */
static Step
end_step(Driver *self, Task *task, Step went)
{
    if (went != STEP_DONE) {
        return went;
    }
    if (self->aborting) { /* perhaps set during this poll */
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return STEP_ERROR;
    }
    bool failed = (has_collected(self) && driver_close_collected(self) < 0) || k_step_over(self->kernel, task) < 0;
    return failed ? STEP_ERROR : STEP_DONE;
}

/* Any poll of a task that was dispatched, and the end of the step. */
NOINLINE static Step
poll_any(Driver *self, Task *task)
{
    if (self->checked || self->anywhere) {
        return end_step(self, task, driver_poll_special(self, task));
    }
    return end_step(self, task, poll(self, task) < 0 ? STEP_ERROR : STEP_DONE);
}

/* The rest of a step that did not end in a plain checkpoint. Steals `context`, in which the code ran (NULL: there
 * was no memory for it), and `thing`. */
NOINLINE static Step
step_answered_slow(Driver *self, Task *task, PyObject *context, PySendResult status, PyObject *thing)
{
    if (status == PYGEN_ERROR) {
        take_error(&thing);
    }
    if (context != NULL) {
        status = leave(self, task, context, status, &thing);
    }
    return end_step(self, task, run(self, task, status, thing) < 0 ? STEP_ERROR : STEP_DONE);
}

/* The step of a task that `is_answered`, after the decision. YIELDED: it went from the answer to a checkpoint, and
 * nothing follows the poll. */
static ALWAYS_INLINE Step
step_answered(Driver *self, Task *task)
{
    PyObject *context = NULL, *thing = NULL;
    PySendResult status = PYGEN_ERROR;
    if (LIKELY(step_answered_fast(self, task, &context, &status, &thing))) {
        return STEP_YIELDED;
    }
    return step_answered_slow(self, task, context, status, thing);
}

/* A step is a decision (unless `task` was dispatched before), its poll, and what follows the poll. NONE: nothing was
 * runnable. ELSEWHERE: the task in `dispatched` must be polled by another thread. */
Step
driver_steps(Driver *self, Task *task, bool straight, long *most)
{
    Kernel *k = self->kernel;
    for (bool plain = is_plain_step(k);; plain = true) {
        if (LIKELY(task == NULL)) {
            *most -= 1;
            if (LIKELY(plain)) {
                task = k_step_fast(k);
            } else if (NOTED(k, note_step_begin(k)) < 0 || k_step(k, &task) < 0) {
                return STEP_ERROR;
            } else if (task == NULL) {
                return STEP_NONE;
            }
            Py_INCREF(task);
        }
        Step went = LIKELY(self->special == 0 && is_answered(task)) ? step_answered(self, task) : poll_any(self, task);
        Py_DECREF(task);
        if (went != STEP_YIELDED || !straight || *most <= 0 || !is_plain_next_step(k)) {
            return went;
        }
        task = NULL;
    }
}
