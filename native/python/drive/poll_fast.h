/* One poll, the fast paths: a task that begins, that goes on with an answer, that yields. The slow twins are `begin` and
 * `driver_answer`, which handle every poll (poll.c, request_answer.c).
 */

#pragma once

#include "python/drive/resume.h"
#include "python/fast_paths.h"
#include "python/law/dispatch_fast.h"
#include "python/law/ledger_fast.h"
#include "python/law/task_arguments.h"

/* Whether all that a coroutine stopped for is a turn of the others, which needs no more than to be paid and queued. */
static inline bool
gives_way(const Kernel *k, const Task *task, PySendResult status, const PyObject *thing)
{
    const Request *checkpoint = k->st->checkpoint;
    return FAST_PATHS && status == PYGEN_NEXT && thing == (const PyObject *)checkpoint && checkpoint->awaited &&
           !task->by_generator && is_plain_yield(k, task);
}

/* Then, and if it was paid, the poll is over. */
static inline void
give_way(Kernel *k, Task *task, PyObject *checkpoint)
{
    k_yield_fast(k, task);
    ((Request *)checkpoint)->awaited = false;
    Py_DECREF(checkpoint);
}

/* Whether the task stands at a request that it awaits, which was answered, and has nothing to hear but that. */
static inline bool
is_answered(const Task *task)
{
    return FAST_PATHS && task->started && !task->raises && !task->cancel_pending && !task->cut && !task->by_generator &&
           task->pending == NULL && (task->extra == NULL || task->extra->ending == NULL);
}

/* Then what it goes on with: new reference, or NULL for None. */
static inline PyObject *
take_answer(Task *task)
{
    PyObject *value = task->answer;
    if (value != NULL || task->effect) {
        task->answer = NULL;
        task->effect = 0; /* only then: the flags are read as one word in a moment, and a part of it is not there yet */
    }
    return value;
}

/* Whether the task begins, and nobody has asked it not to: all that happens first is that its function makes a coroutine. */
static inline bool
is_fresh(const Task *task)
{
    return FAST_PATHS && !task->started && !task->raises && !task->cancel_pending && !task->cut &&
           task->pending == NULL && task->extra == NULL && task_not_begun(task) && task->context != NULL;
}

/* Whether the collector found something that must be seen to. */
static inline bool
has_collected(const Driver *self)
{
    return self->collected != NULL && Py_SIZE(self->collected) > 0;
}

/* Whether the thread stays where it is after a poll, and nothing must be seen to. */
static inline bool
is_at_rest(const Driver *self, const Task *task, PyObject *context)
{
    return context_is_plain(self->kernel, task, context) && self->special == 0 && !has_collected(self);
}

/* Resume a task that `is_answered`, up to its next yield, with nothing to be seen to afterwards. False: it was
 * something else, and *context, *status and *thing are what `turn_slow` goes on with. */
static ALWAYS_INLINE bool
turn_fast(Driver *self, Task *task, PyObject **context, PySendResult *status, PyObject **thing)
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
    if (!LIKELY(gives_way(k, task, *status, *thing) && is_at_rest(self, task, *context) &&
                k_paid_at_once(k, task, &LAW_OP))) {
        return false;
    }
    context_pause_fast(k, *context);
    give_way(k, task, *thing);
    k->at = NULL;
    return true;
}
