/* One step: a decision, and one poll of one coroutine, to whatever it ends in. After execution/coroutine.py.
 *
 * Between a wake and the next step of a coroutine there is no Python frame: a context entered, a send, a bill, a request
 * performed. Endings out of the ordinary (a task that is cut off, an error, a cancellation that was swallowed) are
 * methods of the Python class that derives from this type.
 *
 * `poll` is the usual one, from an answer to a yield, and is compiled into the step whole, with the decision (dispatch.h)
 * and the bill (ledger.h). `poll_otherwise` and `run` know all the others.
 */

#include "context.h"
#include "dispatch.h"
#include "drive.h"
#include "family.h"
#include "ledger.h"

#include <time.h>

/* ---- endings */

int
driver_call(Driver *self, const char *name, PyObject *task, PyObject *what)
{
    PyObject *done = what != NULL ? PyObject_CallMethod((PyObject *)self, name, "OO", task, what)
                                  : PyObject_CallMethod((PyObject *)self, name, "O", task);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The coroutine returned `value`, which is given away. */
static inline int
returned(Driver *self, Task *task, PyObject *value)
{
    int failed = task->phase == LAW_PHASE_DRAINING ? driver_call(self, "_returned", (PyObject *)task, value)
                                                   : k_finish(self->kernel, task, LAW_OUTCOME_OK, value, NULL);
    Py_DECREF(value);
    return failed < 0 ? -1 : 0;
}

/* The coroutine raised: a cancellation that passed through is the usual end of a cancelled task. `error` is given away. */
APART static int
raised(Driver *self, Task *task, PyObject *error)
{
    bool usual = (PyObject *)Py_TYPE(error) == self->kernel->st->Cancelled;
    PyObject *reason = usual ? Py_XNewRef(cancelled_reason(error)) : NULL;
    int failed = reason != NULL ? k_finish(self->kernel, task, LAW_OUTCOME_CANCELLED, reason, NULL)
                                : driver_call(self, "_raised", (PyObject *)task, error);
    Py_XDECREF(reason);
    cancel_spent(self->kernel, error);
    return failed < 0 ? -1 : 0;
}

/* ---- requests */

/* Bill a request that is written in Python. */
SELDOM static BillResult
bill_by_method(Driver *self, Task *task, Request *request, PyObject **refusal)
{
    LawCost cost;
    PyObject *row = PyObject_CallMethod((PyObject *)request, "bill", NULL);
    BillResult result = BILL_ERROR;
    if (row != NULL && cost_of_row(row, &cost) == 0) {
        result = k_bill(self->kernel, task, &cost, row, refusal);
    }
    Py_XDECREF(row);
    return result;
}

SELDOM static int
says_timed(Request *request)
{
    PyObject *timed = PyObject_GetAttrString((PyObject *)request, "timed");
    int yes = timed == NULL ? -1 : PyObject_IsTrue(timed);
    Py_XDECREF(timed);
    return yes;
}

/* What a request was refused with goes to the await point; a bug of ours, or worse, goes out. So does what failed when
 * the poll was over: the task waits already, and cannot be told. 0 or -1. */
SELDOM static int
refused(Driver *self, Task *task, PyObject **error)
{
    Kernel *k = self->kernel;
    if (k->current != task || PyErr_ExceptionMatches(PyExc_AssertionError) || !PyErr_ExceptionMatches(PyExc_Exception)) {
        return -1;
    }
    *error = PyErr_GetRaisedException();
    if (k->observer != NULL && PyErr_GivenExceptionMatches(*error, k->st->CapabilityDenied)) {
        return k_note(k, "capability_denied", task, Py_NewRef(*error));
    }
    return 0;
}

typedef enum { ASK_ERROR = -1, ASK_ANSWERED = 0, ASK_SUSPENDED = 1 } Asked;

/* Have the kernel know the time: what `Pump.now_ns` does, and here without a frame where the clock is the machine's. */
APART static int
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
static inline Asked
perform(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    Kernel *k = self->kernel;
    int timed = USUALLY(request->vt != NULL) ? request->vt->timed : says_timed(request);
    if (timed < 0) {
        return ASK_ERROR;
    }
    if (timed && self->clock != NULL && look_at_clock(self) < 0) { /* the poll may have taken long */
        return ASK_ERROR;
    }
    PyObject *result = USUALLY(request->vt != NULL && request->vt->perform != NULL)
                           ? request->vt->perform(k, task, request)
                           : request_perform(k, task, request);
    if (result == NULL) {
        return refused(self, task, error) < 0 ? ASK_ERROR : ASK_ANSWERED;
    }
    if (result == k->st->SUSPENDED) {
        Py_DECREF(result);
        return ASK_SUSPENDED;
    }
    *value = result;
    return ASK_ANSWERED;
}

/* Bill a request whose bill is not the usual one. ASK_ANSWERED: it is paid, or *error is what it is refused with. */
APART static Asked
bill(Driver *self, Task *task, Request *request, PyObject **error)
{
    if (context_leave(self->kernel) < 0) { /* the task may be cut off, and its code end, now */
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
static inline Asked
ask(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    if (!USUALLY(request->vt != NULL && k_paid_at_once(self->kernel, task, &request->vt->cost))) {
        Asked billed = bill(self, task, request, error);
        if (billed != ASK_ANSWERED || *error != NULL) {
            return billed;
        }
    }
    return perform(self, task, request, value, error);
}

/* ---- the poll */

/* What the coroutine raised, taken from the thread's state: that is how the functions below report it. */
static PySendResult
fallen(PyObject **error)
{
    *error = PyErr_GetRaisedException();
    return PYGEN_ERROR;
}

/* A StopIteration, which is given away, as it comes out of a generator or a coroutine. Thrown as it is it would end the
 * `await`, from 3.12 on, as if all had gone well. */
SELDOM static PyObject *
stopped(PyObject *stop)
{
    PyErr_SetString(PyExc_RuntimeError, "coroutine raised StopIteration");
    PyObject *error = PyErr_GetRaisedException();
    PyException_SetContext(error, Py_NewRef(stop));
    PyException_SetCause(error, stop);
    return error;
}

/* Raise `error`, which is given away, at the await point. */
APART static PySendResult
throw(Driver *self, PyObject *work, PyObject *error, PyObject **result)
{
    State *st = self->kernel->st;
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
    PyObject *stop = PyErr_GetRaisedException();
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

/* Nobody would open a box: the coroutine begins, or a generator in it yielded a request by hand. `value` is given away.
 * Most end where they began; one that does not is aside from then on, while its task lives. */
APART static PySendResult
send_plainly(Kernel *k, Task *task, PyObject *work, PyObject *value, PyObject **result)
{
    bool begins = !task->started;
    PyObject *sent = !begins && value != NULL ? value : Py_None;
    task->started = 1;
    task->by_hand = 0;
    PySendResult status = PyIter_Send(work, sent, result);
    if (begins && status == PYGEN_NEXT && PyCoro_CheckExact(work)) {
        aside_move(&k->aside, work);
    }
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
ends_quietly(const Task *task, const PyObject *result)
{
    const Nursery *nursery = task->nursery;
    bool plain = (result == Py_None || PyLong_CheckExact(result)) && task->more == NULL && task->phase == LAW_PHASE_IDLE;
    bool heard = nursery->ends != NULL || nursery->ends_waiter != NULL
                 || (nursery->joining != NULL && !is_task(nursery->joining));
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
    if (!USUALLY(status == PYGEN_NEXT)) {
        return self->meter == NULL && ends_quietly(task, result);
    }
    const RequestVT *vt = is_request(result) ? ((const Request *)result)->vt : NULL;
    return vt != NULL && vt->quiet;
}

/* Let the coroutine run to its next request. `value` and `error` are given away. *result is that request, what the
 * coroutine returned or, PYGEN_ERROR, what it raised: a new reference. */
static WITHIN PySendResult
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
    if (!USUALLY(error == NULL)) {
        Py_XDECREF(value);
        status = throw(self, work, error, result);
    }
    else {
        bool boxed = task->started && !task->by_hand;
        status = boxed ? send_boxed(self, work, value, result) : send_plainly(k, task, work, value, result);
        if (status == PYGEN_ERROR) {
            fallen(result);
        }
    }
    Py_DECREF(work);
    if ((is_quiet(self, task, status, *result) ? context_pause(k, task, context) : context_exit(k, task, context)) < 0) {
        if (status == PYGEN_ERROR) {
            PyErr_Clear(); /* what it raised matters more */
        }
        else {
            Py_CLEAR(*result);
            status = fallen(result);
        }
    }
    return status;
}

/* The same where memory is metered. The meter is told before and after, and may have an error raised at the await
 * point, in place of what the coroutine asks for, or in place of the error that it ended with. */
APART static PySendResult
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

/* What the coroutine yielded, if it is ours; else a request that refuses it. Takes the reference over. */
static inline Request *
as_request(Driver *self, PyObject *thing)
{
    State *st = self->kernel->st;
    if (is_request(thing) || PyType_IsSubtype(Py_TYPE(thing), st->Request)) {
        return (Request *)thing;
    }
    PyObject *args[] = {thing}, *foreign = law_call(st, "as_request", args, 1);
    Py_DECREF(thing);
    return (Request *)foreign;
}

/* One or the other. Where nobody meters, what the coroutine awaits may be answered on the spot: see request.c. */
static WITHIN PySendResult
go_straight_on(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    Kernel *k = self->kernel;
    if (!USUALLY(self->meter == NULL)) {
        return resume_metered(self, task, value, error, result);
    }
    k->answers = true;
    PySendResult status = resume(self, task, value, error, result);
    k->answers = false;
    return status;
}

APART static PySendResult
go_on(Driver *self, Task *task, PyObject *value, PyObject *error, PyObject **result)
{
    return go_straight_on(self, task, value, error, result);
}

/* Bill and perform a request, which is given away, unless there is an error to raise: *value and *error are as in `ask`. */
static inline Asked
answer(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error)
{
    Asked asked = ASK_ANSWERED;
    if (task->cancel_pending /* and a Cancelled may be made in Python (C3) */
        && (context_leave(self->kernel) < 0 || cancel_deliver(self->kernel, task, error) < 0)) {
        Py_CLEAR(*value);
        asked = ASK_ERROR;
    }
    else if (*error == NULL) {
        asked = ask(self, task, request, value, error);
    }
    Py_DECREF(request);
    return asked;
}

/* From what the coroutine came to, which is given away, to whatever the poll ends in. */
APART static int
run(Driver *self, Task *task, PySendResult status, PyObject *thing)
{
    for (;;) {
        PyObject *value = NULL, *error = NULL;
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
        if (!USUALLY(request->awaited && !task->by_hand)) {
            task->by_hand = !request->awaited;
        }
        request->awaited = false;
        Asked asked = answer(self, task, request, &value, &error);
        if (asked != ASK_ANSWERED) {
            return asked == ASK_ERROR ? -1 : 0;
        }
        status = go_on(self, task, value, error, &thing);
    }
}

/* Whether the task stands at a request, which was answered, and has nothing to hear but that. */
static inline bool
is_answered(const Task *task)
{
    return task->started && !task->raises && !task->cancel_pending && !task->cut && task->pending == NULL
           && (task->more == NULL || task->more->ending == NULL);
}

/* Whether the task begins, and nobody has asked it not to: all that happens first is that its function makes a coroutine. */
static inline bool
is_fresh(const Task *task)
{
    return !task->started && !task->raises && !task->cancel_pending && !task->cut && task->pending == NULL
           && task->more == NULL && task_unborn(task) && task->context != NULL;
}

/* A poll that begins in another way: with what was decided before, an error, a request that could not be paid, or at the
 * beginning of the code. 1: *value, *error and *retry are what to go on with; 0: the poll is over; -1: an exception is set. */
APART static int
begin(Driver *self, Task *task, PyObject **value, PyObject **error, PyObject **retry)
{
    TaskMore *more = task->more;
    if (context_leave(self->kernel) < 0) {
        return -1;
    }
    if (more != NULL && more->ending != NULL) {
        PyObject *ending = Py_NewRef(more->ending);
        PyObject *done = PyObject_CallMethod((PyObject *)self->kernel, "finish", "OO", (PyObject *)task, ending);
        Py_DECREF(ending);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    if (task_unborn(task) && task_begin(self->kernel->st, task) < 0) {
        return -1;
    }
    if (task->cut) {
        return driver_call(self, "_close", (PyObject *)task, NULL);
    }
    *(task->raises ? error : value) = task->answer;
    *retry = task->pending;
    task->answer = task->pending = NULL;
    task->raises = 0;
    if (*error == NULL && task->cancel_pending && !task->effect && cancel_deliver(self->kernel, task, error) < 0) {
        Py_CLEAR(*value);
        Py_CLEAR(*retry);
        return -1;
    }
    task->effect = 0;
    if (!task->started && *error != NULL) {
        Py_CLEAR(*error);
        Py_CLEAR(*value);
        Py_CLEAR(*retry);
        return driver_call(self, "_close", (PyObject *)task, NULL);
    }
    if (*error != NULL) {
        Py_CLEAR(*retry);
    }
    if (task->work == NULL || task->context == NULL) { /* whoever spawned it had no memory left to give it code */
        Py_CLEAR(*value);
        Py_CLEAR(*error);
        Py_CLEAR(*retry);
        PyErr_NoMemory();
        return raised(self, task, PyErr_GetRaisedException());
    }
    return 1;
}

/* Any poll. 0, or -1 with an exception set. */
APART static int
poll_otherwise(Driver *self, Task *task)
{
    PyObject *value = NULL, *error = NULL, *thing = NULL;
    int goes_on = is_fresh(task) ? (task_begin(self->kernel->st, task) < 0 ? -1 : 1)
                                 : begin(self, task, &value, &error, &thing);
    if (goes_on <= 0) {
        return goes_on;
    }
    Asked asked = thing != NULL ? answer(self, task, (Request *)thing, &value, &error) : ASK_ANSWERED;
    if (asked != ASK_ANSWERED) {
        return asked == ASK_ERROR ? -1 : 0;
    }
    PySendResult status = go_straight_on(self, task, value, error, &thing);
    return status == PYGEN_RETURN ? returned(self, task, thing) : run(self, task, status, thing);
}

/* Whether the task awaits a turn of the others, and nothing but that. */
static inline bool
gives_way(const Task *task, PySendResult status, const PyObject *thing)
{
    const Request *request = status == PYGEN_NEXT && is_request(thing) ? (const Request *)thing : NULL;
    return request != NULL && request->vt != NULL && request->vt->yields && request->awaited && !task->by_hand
           && !task->cancel_pending;
}

/* The same, and the usual one straight on: from an answer to a yield, without a call of ours on the way. */
static WITHIN int
poll(Driver *self, Task *task)
{
    Kernel *k = self->kernel;
    if (!USUALLY(is_answered(task))) {
        return poll_otherwise(self, task);
    }
    PyObject *value = NULL, *thing = NULL, *error = NULL;
    if (task->answer != NULL || task->effect) {
        value = task->answer;
        task->answer = NULL;
        task->effect = 0; /* only then: the flags are read as one word in a moment, and a part of it is not there yet */
    }
    PySendResult status = go_straight_on(self, task, value, NULL, &thing);
    if (!USUALLY(gives_way(task, status, thing) && k_paid_at_once(k, task, &((Request *)thing)->vt->cost))) {
        return run(self, task, status, thing);
    }
    int failed = k_yielded(k, task);
    ((Request *)thing)->awaited = false;
    Py_DECREF(thing);
    if (USUALLY(failed == 0)) {
        return 0;
    }
    if (refused(self, task, &error) < 0) {
        return -1;
    }
    status = go_on(self, task, NULL, error, &thing);
    return run(self, task, status, thing);
}

int
driver_poll(Driver *self, Task *task)
{
    State *st = self->kernel->st;
    st->polls += 1;
    int failed = poll_otherwise(self, task);
    st->polls -= 1;
    return failed;
}

/* ---- the step */

/* One step: a decision, unless `task` was dispatched already, its poll, and what must be seen to afterwards. NONE:
 * nothing was runnable. ELSEWHERE: who was dispatched is to be polled by another thread, which begins with that. */
Step
driver_step(Driver *self, Task *task)
{
    Kernel *k = self->kernel;
    if (USUALLY(task == NULL)) {
        if (NOTED(k, note_step_begin(k)) < 0 || k_step(k, &task) < 0) {
            return STEP_ERROR;
        }
        if (task == NULL) {
            return STEP_NONE;
        }
        Py_INCREF(task);
    }
    Step went = USUALLY(self->odd == 0) ? (poll(self, task) < 0 ? STEP_ERROR : STEP_DONE) : driver_polled_oddly(self, task);
    if (went == STEP_DONE && self->aborting) { /* since a moment ago, perhaps */
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        went = STEP_ERROR;
    }
    if (went == STEP_DONE
        && ((self->collected != NULL && Py_SIZE(self->collected) > 0 && driver_see_to_collected(self) < 0)
            || k_step_over(k, task) < 0)) {
        went = STEP_ERROR;
    }
    Py_DECREF(task);
    return went;
}
