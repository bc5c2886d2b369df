/* One poll, the fast paths: a task that begins, that continues with an answer, that yields. The slow twins are `begin`
 * and `driver_answer`, which handle every poll (poll.c, request_answer.c).
 */

#pragma once

#include "python/drive/resume.h"
#include "python/fast_paths.h"
#include "python/law/dispatch_fast.h"
#include "python/law/ledger_fast.h"
#include "python/law/task.h"

/* Whether the coroutine awaits a checkpoint, and the task only has to pay and to go to the back of its lane. */
static inline bool
is_plain_checkpoint(const Kernel *k, const Task *task, PySendResult status, const PyObject *thing)
{
    const Request *checkpoint = k->st->checkpoint;
    return FAST_PATHS && status == PYGEN_NEXT && thing == (const PyObject *)checkpoint &&
           checkpoint->step == REQUEST_YIELDED && !task->by_generator && is_plain_yield(k, task);
}

/* End the poll at such a checkpoint, after it was paid. */
static inline void
checkpoint_fast(Kernel *k, Task *task, PyObject *checkpoint)
{
    k_yield_fast(k, task);
    ((Request *)checkpoint)->step = REQUEST_USED;
    Py_DECREF(checkpoint);
}

/* Whether the task awaits a request that was answered, and nothing else must be delivered to it. */
static inline bool
is_answered(const Task *task)
{
    return FAST_PATHS && task->started && !task->raises && !task->cancel_pending && !task->cut && !task->by_generator &&
           task->pending == NULL && (task->extra == NULL || task->extra->ending == NULL);
}

/* The answer of such a task: new reference, or NULL for None. */
static inline PyObject *
take_answer(Task *task)
{
    PyObject *value = task->answer;
    if (value != NULL || task->effect) {
        task->answer = NULL;
        task->effect =
            0; /* only here: the flags are read next as one word, and a store to a part of it would delay that */
    }
    return value;
}

/* Whether the task begins and was not asked to stop: only its function must be called, which makes the coroutine. */
static inline bool
is_fresh(const Task *task)
{
    return FAST_PATHS && !task->started && !task->raises && !task->cancel_pending && !task->cut &&
           task->pending == NULL && task->extra == NULL && task_not_begun(task) && task->context != NULL;
}

/* Whether the collector found async generators that must be closed. */
static inline bool
has_collected(const Driver *self)
{
    return self->collected != NULL && Py_SIZE(self->collected) > 0;
}

/* Whether the thread stays in its context after the poll, and nothing else is to be done. */
static inline bool
is_plain_pause(const Driver *self, const Task *task, PyObject *context)
{
    return context_is_plain(self->kernel, task, context) && self->special == 0 && !has_collected(self);
}

/* Resume a task that `is_answered`, to its next checkpoint. False: it stopped with something else, and
 * `step_answered_slow` continues with *context, *status and *thing. */
static ALWAYS_INLINE bool
step_answered_fast(Driver *self, Task *task, PyObject **context, PySendResult *status, PyObject **thing)
{
    Kernel *k = self->kernel;
    *context = context_enter(k, task);
    if (!LIKELY(*context != NULL)) {
        return false;
    }
    PyObject *value = take_answer(task), *work = Py_NewRef(task->work);
    k->answers = true;
    *status = send_boxed(self, work, value, thing);
    k->answers = false;
    Py_DECREF(work);
    if (!LIKELY(is_plain_checkpoint(k, task, *status, *thing) && is_plain_pause(self, task, *context) &&
                k_bill_fast(k, task, &LAW_OP))) {
        return false;
    }
    context_pause_fast(k, *context);
    checkpoint_fast(k, task, *thing);
    k->at = NULL;
    return true;
}
