/* The frequent events: their numbers and texts. See events.h. `describe` of each kind in trace/catalogue.py is the
 * specification.
 *
 * Rare cases are left to Python: a text that is not plain, a budget with limits, an outcome that Python has made.
 */

#include "python/trace/events.h"
#include "python/law/deferred_error.h"
#include "python/law/nursery.h"
#include "python/law/observer.h"
#include "python/law/scope.h"
#include "python/law/task.h"
#include "python/law/wait.h"
#include "python/module/seam.h"
#include "python/ops/request.h"
#include "python/trace/writer.h"

static uint64_t
id_of(const Task *task)
{
    return task != NULL ? task->id : 0;
}

/* ---- the scheduler */

bool
note_clock(Kernel *k, PyObject *now)
{
    long long now_ns = PyLong_CheckExact(now) ? PyLong_AsLongLong(now) : -1;
    uint64_t numbers[] = {(uint64_t)now_ns};
    if (now_ns < 0) { /* not a time, or an error */
        PyErr_Clear();
        return false;
    }
    return trace_writer_write(k, NOTE_CLOCK, numbers, NULL);
}

int
note_step_begin(Kernel *k)
{
    return trace_writer_write(k, NOTE_STEP_BEGIN, NULL, NULL) ? 0
                                                              : trace_writer_decline(k, NOTE_STEP_BEGIN, NULL, NOTHING);
}

int
note_decision(Kernel *k, Task *task, LawLane lane, Worker *worker, uint32_t limit)
{
    uint32_t streak = worker->cancel_streak;
    uint64_t numbers[] = {task->id, lane, (uint64_t)worker->id, streak, limit, task->generation, k->chain};
    if (trace_writer_write(k, NOTE_STEP_DECISION, numbers, NULL)) {
        return 0;
    }
    PyObject *detail = Py_BuildValue("OiII", k->st->lanes[lane], worker->id, (unsigned)streak, (unsigned)limit);
    return trace_writer_decline(k, NOTE_STEP_DECISION, task, detail);
}

int
note_step_end(Kernel *k, Task *task)
{
    uint64_t numbers[] = {task->id, task->state};
    if (trace_writer_write(k, NOTE_STEP_END, numbers, NULL)) {
        return 0;
    }
    return trace_writer_decline(k, NOTE_STEP_END, task, Py_NewRef(k->st->states[task->state]));
}

/* ---- tasks */

int
note_task(Kernel *k, Note note, Task *task)
{
    uint64_t numbers[] = {task->id};
    return trace_writer_write(k, note, numbers, NULL) ? 0 : trace_writer_decline(k, note, task, NOTHING);
}

/* Report the named counters of a stated budget. The event comes before the one to which they belong. */
static int
note_counters(Kernel *k, Task *task, PyObject *budget)
{
    if (budget == k->st->UNSTATED) {
        return 0;
    }
    PyObject *args[] = {(PyObject *)k, task != NULL ? (PyObject *)task : Py_None,
                        PyObject_GetAttrString(budget, "named")};
    PyObject *noted = args[2] == NULL ? NULL : py_call(k->st, PY_note_counters, args, 3);
    Py_XDECREF(args[2]);
    Py_XDECREF(noted);
    return noted == NULL ? k_defer_error(k) : 0;
}

int
note_spawned(Kernel *k, Task *task, PyObject *budget)
{
    uint64_t numbers[] = {task->id,   task->nursery->id, id_of(k->current), task->pinned, TRACE_NONE,
                          TRACE_NONE, TRACE_NONE,        TRACE_NONE,        TRACE_NONE};
    bool plain =
        budget == k->st->UNSTATED && task->extra == NULL; /* a ticket, which is in `extra`, changes the record */
    bool written = plain && trace_writer_write(k, NOTE_SPAWNED, numbers, task->name);
    if (!written && note_counters(k, task, budget) < 0) {
        return -1;
    }
    return written ? 0 : trace_writer_decline(k, NOTE_SPAWNED, task, Py_NewRef(budget));
}

/* The number in `QUEUES` of the queue of a task that was just queued. */
static uint64_t
queue_number(const Task *task, const Worker *home)
{
    if (home == NULL) {
        return QUEUE_INJECTOR;
    }
    if (task->lane == LAW_LANE_CANCEL || task->lane == LAW_LANE_TIMED) {
        return task->lane == LAW_LANE_CANCEL ? QUEUE_CANCEL : QUEUE_TIMED;
    }
    return task->pinned ? QUEUE_PINNED : QUEUE_STEALABLE;
}

int
note_enqueued(Kernel *k, Task *task, Worker *home, bool timed, int64_t deadline_ns)
{
    uint64_t worker = home != NULL ? (uint64_t)home->id : TRACE_INJECTOR;
    uint64_t numbers[] = {task->id, queue_number(task, home), worker, timed ? (uint64_t)deadline_ns : TRACE_NONE};
    if (trace_writer_write(k, NOTE_ENQUEUED, numbers, NULL)) {
        return 0;
    }
    PyObject *when = timed ? PyLong_FromLongLong(deadline_ns) : Py_NewRef(Py_None);
    return trace_writer_decline(k, NOTE_ENQUEUED, task, Py_BuildValue("ON", home ? (PyObject *)home : Py_None, when));
}

int
note_woken(Kernel *k, Task *task, uint64_t generation, LawNotice notice)
{
    bool stale = notice == LAW_NOTICE_STALE;
    /* NULL: the task ended while there was no observer, and released its nursery (RECORD-4). */
    uint64_t region = task->nursery != NULL ? task->nursery->id : 0;
    uint64_t woken[] = {task->id, generation, notice}, late[] = {task->id, region, generation, notice};
    Note note = stale ? NOTE_STALE_WAKE : NOTE_WOKEN;
    if (trace_writer_write(k, note, stale ? late : woken, NULL)) {
        return 0;
    }
    return trace_writer_decline(k, note, task,
                                Py_BuildValue("KO", (unsigned long long)generation, k->st->notices[notice]));
}

/* For a bare wait, ask the operation for its reason. For other waits Python does that, because `reason` may be code of the
 * program. */
int
note_blocked(Kernel *k, Task *task)
{
    if (k->trace_writer != NULL && task->bare) {
        PyObject *operation = Py_NewRef(task->pending),
                 *why = PyObject_CallMethod(operation, "why", NULL); /* RECORD-3 */
        Py_DECREF(operation);
        if (why == NULL) {
            PyErr_Clear(); /* Python asks again, and `brief` writes down the error */
        }
        uint64_t numbers[] = {task->id, 1};
        bool written = why != NULL && trace_writer_write(k, NOTE_BLOCKED, numbers, why);
        Py_XDECREF(why);
        if (written) {
            return 0;
        }
    }
    return trace_writer_decline(k, NOTE_BLOCKED, task, task_wait(k->st, task));
}

int
note_done(Kernel *k, Task *task)
{
    const int64_t none[LAW_COMPONENTS] = {0}, *spent = task->extra != NULL ? task->extra->spent : none;
    uint64_t numbers[2 + LAW_COMPONENTS] = {task->id, task->kind, (uint64_t)task->ops_spent};
    for (int i = LAW_OPS + 1; i < LAW_COMPONENTS; i++) {
        numbers[2 + i] = (uint64_t)spent[i];
    }
    if (k->trace_writer != NULL && !task->whole) {
        bool failed = task->kind == LAW_OUTCOME_FAILED || task->kind == LAW_OUTCOME_PANICKED;
        PyObject *error = failed && task->work != NULL ? PyType_GetName(Py_TYPE(task->work)) : NULL;
        if (failed && error == NULL) {
            PyErr_Clear();
        }
        bool written = (error != NULL || !failed) && trace_writer_write(k, NOTE_DONE, numbers, error);
        Py_XDECREF(error);
        if (written) {
            return 0;
        }
    }
    return trace_writer_decline(k, NOTE_DONE, task, task_outcome(k->st, task));
}

int
note_charged(Kernel *k, Task *task, const LawCost *cost, PyObject *row)
{
    uint64_t numbers[1 + LAW_COMPONENTS] = {task->id};
    for (unsigned i = 0; i < cost->n; i++) {
        numbers[1 + cost->component[i]] = (uint64_t)cost->amount[i];
    }
    if (trace_writer_write(k, NOTE_CHARGED, numbers, NULL)) {
        return 0;
    }
    return trace_writer_decline(k, NOTE_CHARGED, task, row != NULL ? Py_NewRef(row) : cost_row(cost));
}

int
note_timer(Kernel *k, Note note, Task *task, Timer *timer)
{
    uint64_t numbers[] = {id_of(task), timer->id, timer->generation, (uint64_t)timer->deadline_ns, timer->kind};
    if (trace_writer_write(k, note, numbers, NULL)) { /* `timer_armed` has five numbers, the others have three */
        return 0;
    }
    return trace_writer_decline(k, note, task, Py_NewRef((PyObject *)timer));
}

/* ---- ownership */

int
note_nursery_opened(Kernel *k, Nursery *nursery, PyObject *budget)
{
    if (k->trace_writer != NULL && budget == k->st->UNSTATED) {
        uint64_t numbers[] = {
            id_of(nursery->owner), nursery->id, TRACE_NONE, TRACE_NONE, TRACE_NONE, TRACE_NONE, TRACE_NONE};
        PyObject *name = nursery_name(nursery);
        if (name == NULL) {
            return k_defer_error(k);
        }
        bool written = trace_writer_write(k, NOTE_NURSERY_OPENED, numbers, name);
        Py_DECREF(name);
        if (written) {
            return 0;
        }
    }
    if (note_counters(k, nursery->owner, budget) < 0) {
        return -1;
    }
    return trace_writer_decline(k, NOTE_NURSERY_OPENED, nursery->owner, PyTuple_Pack(2, (PyObject *)nursery, budget));
}

/* Read the fields of a reason: its kind and the id of the task as numbers, and its detail, a new reference. False, with
 * nothing set: this is not a `CancelReason` as the law makes it. */
static bool
read_reason(ModuleState *st, PyObject *reason, uint64_t *cause, uint64_t *by, PyObject **detail)
{
    if ((PyObject *)Py_TYPE(reason) != st->CancelReason) {
        return false;
    }
    PyObject *kind = frozen_field(reason, st->reason_slots[0]);
    *detail = frozen_field(reason, st->reason_slots[1]);
    PyObject *waiter = frozen_field(reason, st->reason_slots[2]);
    *cause = LAW_CANCEL_KINDS;
    for (unsigned i = 0; i < LAW_CANCEL_KINDS; i++) {
        *cause = st->cancel_kinds[i] == kind ? i : *cause;
    }
    long long id = waiter == Py_None                             ? -1
                   : waiter != NULL && PyLong_CheckExact(waiter) ? PyLong_AsLongLong(waiter)
                                                                 : -2;
    *by = (uint64_t)id;
    bool known = *cause < LAW_CANCEL_KINDS && id >= -1 && *detail != NULL && !PyErr_Occurred();
    Py_XDECREF(kind);
    Py_XDECREF(waiter);
    if (!known) {
        PyErr_Clear();
        Py_CLEAR(*detail);
    }
    return known;
}

int
note_nursery(Kernel *k, Note note, Nursery *nursery)
{
    uint64_t numbers[4] = {id_of(nursery->owner), nursery->id, nursery->state};
    PyObject *detail = NULL;
    bool written = false;
    if (note != NOTE_NURSERY_CANCELLING) {
        written =
            trace_writer_write(k, note, numbers, NULL); /* `nursery_closing` has no state: the third is not used */
    } else if (k->trace_writer != NULL && read_reason(k->st, nursery->reason, &numbers[2], &numbers[3], &detail)) {
        written = trace_writer_write(k, note, numbers, NULL);
    }
    Py_XDECREF(detail);
    return written ? 0 : trace_writer_decline(k, note, nursery->owner, Py_NewRef((PyObject *)nursery));
}

/* The number of the scope that was cancelled with this reason: 0 is the task itself, 1 its outermost cancel scope. If there
 * are several, the innermost is the newest. UINT64_MAX: none. */
static uint64_t
scope_number(Task *task, PyObject *reason)
{
    uint64_t inside = 0, found = UINT64_MAX;
    PyObject *scope = task_inner(task) != NULL ? (PyObject *)task_inner(task) : (PyObject *)task;
    for (; scope != NULL; scope = scope_parent(scope)) {
        if (found == UINT64_MAX && scope_phase(scope) == LAW_PHASE_REQUESTED && scope_reason(scope) == reason) {
            found = inside;
        }
        inside += 1;
    }
    return found == UINT64_MAX ? found : inside - 1 - found;
}

int
note_cancel(Kernel *k, Note note, Task *task, PyObject *reason)
{
    uint64_t numbers[4] = {task->id};
    PyObject *detail = NULL;
    bool written = false;
    if (k->trace_writer != NULL && reason != NULL && read_reason(k->st, reason, &numbers[1], &numbers[2], &detail)) {
        numbers[3] = note == NOTE_CANCEL_REQUESTED ? scope_number(task, reason) : 0;
        written = trace_writer_write(k, note, numbers, detail);
    }
    Py_XDECREF(detail);
    return written ? 0 : trace_writer_decline(k, note, task, Py_XNewRef(reason));
}
