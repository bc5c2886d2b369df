/* Cancel requests. A request reaches the nurseries opened inside its scope, their children, the nurseries of these
 * children, and so on. After `request`, `request_nursery`, `_interrupt` and `_stop_nursery` in
 * src/bursar/law/cancel.py.
 *
 * A request spreads by a loop over a queue, not by recursion: a hundred thousand nested nurseries are legal. Three
 * differences from the Python code:
 *   1. The queue holds snapshots of all children of a nursery, not single children. All children of one nursery get the
 *      same reason, so a nursery with a hundred thousand children needs one allocation. The order is the same:
 *      nurseries in the order in which they were stopped, children in the order of spawning.
 *   2. The reason and the snapshot are allocated before the nursery is stopped, so without memory the nursery does not
 *      change. If nothing at all has changed, the request raises. Otherwise it spreads as far as it can, and the error
 *      ends the run (`k_defer_error`), because a request must not stay incomplete.
 *   3. The nurseries that a request reaches are not put in a list: `interrupt` and `stop_between` both walk the scopes.
 *      The scopes around a cancel scope never change (scope.c), and a nursery that ended in between is not stopped.
 *
 * Observers and waits written in Python may run in between (RECORD-3). So a snapshot owns its tasks, and a walk owns
 * the scope at which it starts.
 */

#include "python/law/cancel_request.h"
#include "python/law/cancel_fast.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch_wake.h"
#include "python/law/nursery.h"
#include "python/law/observer.h"
#include "python/law/scope.h"
#include "python/law/task.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* The children that a nursery had when it was stopped, and the reason that they get. */
typedef struct ChildSnapshot {
    struct ChildSnapshot *next;
    PyObject *why; /* owned */
    size_t room, n;
    Task *members[]; /* owned */
} ChildSnapshot;

/* A queue of snapshots whose tasks must still be asked to stop. */
typedef struct ChildSnapshots {
    ChildSnapshot *first;
    ChildSnapshot *last;
} ChildSnapshots;

/* Free a snapshot; NULL is allowed. */
static void
child_snapshot_free(ChildSnapshot *child_snapshot)
{
    if (child_snapshot != NULL) {
        for (size_t i = 0; i < child_snapshot->n; i++) {
            Py_DECREF(child_snapshot->members[i]);
        }
        Py_XDECREF(child_snapshot->why);
        PyMem_Free(child_snapshot);
    }
}

/* Put a snapshot at the end of the queue, which then owns it; NULL is allowed. */
static void
child_snapshots_append(ChildSnapshots *snapshots, ChildSnapshot *child_snapshot)
{
    if (child_snapshot == NULL) {
        return;
    }
    if (snapshots->last == NULL) {
        snapshots->first = child_snapshot;
    } else {
        snapshots->last->next = child_snapshot;
    }
    snapshots->last = child_snapshot;
}

/* Take the first snapshot out; NULL if there is none. */
static ChildSnapshot *
child_snapshots_take(ChildSnapshots *snapshots)
{
    ChildSnapshot *child_snapshot = snapshots->first;
    if (child_snapshot != NULL) {
        snapshots->first = child_snapshot->next;
        snapshots->last = snapshots->first != NULL ? snapshots->last : NULL;
    }
    return child_snapshot;
}

/* ---- reasons */

PyObject *
cancel_reason_new(ModuleState *st, LawCancelKind kind, PyObject *detail, PyObject *by)
{
    PyObject *values[] = {st->cancel_kinds[kind], detail, by};
    return frozen_new(st->CancelReason, st->reason_slots, values, 3);
}

enum { REASON_KIND = 0, REASON_DETAIL = 1 };

/* A field of a reason; new reference, or NULL with an exception set. */
static PyObject *
field_of(ModuleState *st, PyObject *reason, int field)
{
    if ((PyObject *)Py_TYPE(reason) == st->CancelReason) {
        return frozen_field(reason, st->reason_slots[field]);
    }
    return PyObject_GetAttrString(reason, field == REASON_KIND ? "kind" : "detail");
}

/* The kind of a reason. An unknown kind counts as USER. 0, or -1 with an exception set. */
static int
kind_of(ModuleState *st, PyObject *reason, LawCancelKind *kind)
{
    PyObject *member = field_of(st, reason, REASON_KIND);
    if (member == NULL) {
        return -1;
    }
    *kind = LAW_CANCEL_USER;
    for (int i = 0; i < LAW_CANCEL_KINDS; i++) {
        if (st->cancel_kinds[i] == member) {
            *kind = (LawCancelKind)i;
        }
    }
    Py_DECREF(member);
    return 0;
}

/* The reason for the children of a nursery that is cancelled for `reason`. If a sibling failed (in this nursery:
 * `direct`), it has the kind SIBLING, otherwise PARENT. An inherited detail is passed on unchanged, so that a reason
 * does not grow with the depth of the tree. New reference, or NULL with an exception set. */
static PyObject *
why_for_children(ModuleState *st, Nursery *nursery, PyObject *reason, bool direct)
{
    LawCancelKind kind;
    if (kind_of(st, reason, &kind) < 0) {
        return NULL;
    }
    PyObject *why = NULL, *detail = NULL;
    PyObject *by = nursery->owner != NULL ? PyLong_FromUnsignedLongLong(nursery->owner->id) : NOTHING;
    if (law_kind_inherited(kind)) {
        detail = field_of(st, reason, REASON_DETAIL);
    } else {
        PyObject *name = nursery_name(nursery);
        detail = name != NULL ? PyUnicode_FromFormat("%S is cancelled (%S)", name, reason) : NULL;
        Py_XDECREF(name);
    }
    if (by != NULL && detail != NULL) {
        why = cancel_reason_new(st, law_kind_for_children(kind, direct), detail, by);
    }
    Py_XDECREF(by);
    Py_XDECREF(detail);
    return why;
}

/* ---- nurseries */

static bool
may_stop(const Nursery *nursery)
{
    return nursery->state == LAW_NURSERY_OPEN || nursery->state == LAW_NURSERY_CLOSING;
}

/* An empty snapshot with the reason and room for all children of the nursery; NULL if it has no children. 0, or -1 with
 * an exception set. */
static int
child_snapshot_new(ModuleState *st, Nursery *nursery, PyObject *reason, bool direct, ChildSnapshot **child_snapshot)
{
    *child_snapshot = NULL;
    if (law_queue_empty(&nursery->children)) {
        return 0;
    }
    PyObject *why = why_for_children(st, nursery, reason, direct);
    if (why == NULL) {
        return -1;
    }
    size_t room = nursery->children.length;
    *child_snapshot = PyMem_Malloc(sizeof(ChildSnapshot) + room * sizeof(Task *));
    if (*child_snapshot == NULL) {
        Py_DECREF(why);
        PyErr_NoMemory();
        return -1;
    }
    **child_snapshot = (ChildSnapshot){.next = NULL, .why = why, .room = room, .n = 0};
    return 0;
}

/* Put the children that the nursery has now into the snapshot. There is room: since the snapshot was allocated, the
 * nursery has taken no child (NURSERY-2). */
static void
child_snapshot_fill(ChildSnapshot *child_snapshot, Nursery *nursery)
{
    Py_XSETREF(nursery->why, Py_NewRef(child_snapshot->why));
    const LawQueue *children = &nursery->children;
    for (LawLink *link = law_queue_oldest(children); link != NULL; link = law_queue_newer(children, link)) {
        LAW_RULE(child_snapshot->n < child_snapshot->room, "NURSERY-2");
        child_snapshot->members[child_snapshot->n++] = (Task *)Py_NewRef((PyObject *)LAW_RECORD(link, Task, sibling));
    }
}

/* Move a nursery to CANCELLING, with what follows for the nursery itself. 0, or -1 with an exception set. */
static int
begin_cancelling(Kernel *k, Nursery *nursery, PyObject *reason)
{
    if (nursery_move(nursery, LAW_NURSERY_CANCELLING) < 0) {
        return -1;
    }
    k->draining_nurseries += 1;
    Py_XSETREF(nursery->reason, Py_NewRef(reason));
    if (NOTED(k, note_nursery(k, NOTE_NURSERY_CANCELLING, nursery)) < 0) {
        return -1;
    }
    bool waits = nursery->scope != NULL && nursery->scope->exiting && nursery->owner != NULL;
    return waits ? cancel_pause_cleanup(k, nursery->owner) : 0;
}

/* Move a nursery to CANCELLING; its children come next. *child_snapshot: its children; NULL if it has none or was
 * stopped before. `direct`: the request was for this nursery. 0, or -1 with an exception set. */
static int
stop_nursery(Kernel *k, Nursery *nursery, PyObject *reason, bool direct, ChildSnapshot **child_snapshot)
{
    *child_snapshot = NULL;
    if (!may_stop(nursery)) {
        return 0;
    }
    if (child_snapshot_new(k->st, nursery, reason, direct, child_snapshot) < 0) {
        return -1;
    }
    bool still = may_stop(nursery); /* making the reason ran Python code */
    int result = still ? begin_cancelling(k, nursery, reason) : 0;
    if (still && result == 0 && *child_snapshot != NULL) {
        child_snapshot_fill(*child_snapshot, nursery);
    } else {
        child_snapshot_free(*child_snapshot);
        *child_snapshot = NULL;
    }
    return result;
}

/* ---- scopes */

/* Interrupt the task, if no shield hides the request. *from is the innermost scope that the request reaches, a new
 * reference even if this fails. 0, or -1 with an exception set. */
static int
interrupt(Kernel *k, PyObject *scope, PyObject **from)
{
    Task *task = scope_task(scope);
    CancelScope *block = task_inner(task);
    *from = block != NULL ? (PyObject *)block : (PyObject *)task;
    bool hidden = false;
    while (block != NULL && (PyObject *)block != scope) {
        if (block->shielded && task->state == LAW_STATE_EXHAUSTED) {
            block->shielded = false; /* on hold: it cannot run, and a cancelled task gets no recharge */
        } else if (block->shielded) {
            hidden = true;
            *from = block->parent;
        }
        block = is_task(block->parent) ? NULL : (CancelScope *)block->parent;
    }
    Py_INCREF(*from);
    if (hidden || (!is_task(scope) && ((CancelScope *)scope)->exiting)) {
        return 0;
    }
    task->cancel_pending = 1;
    return k_interrupt(k, task);
}

/* Stop the nurseries from `from` out to `scope`, innermost first; their children go into `next`. */
static void
stop_between(Kernel *k, PyObject *from, PyObject *scope, PyObject *reason, ChildSnapshots *next)
{
    for (PyObject *inner = from; !is_task(inner); inner = scope_parent(inner)) {
        Nursery *nursery = (Nursery *)Py_XNewRef((PyObject *)((CancelScope *)inner)->body_of);
        if (nursery != NULL) {
            bool direct = (PyObject *)nursery->scope == scope;
            ChildSnapshot *child_snapshot;
            if (stop_nursery(k, nursery, reason, direct, &child_snapshot) < 0) {
                k_defer_error(k);
            }
            Py_DECREF(nursery);
            child_snapshots_append(next, child_snapshot);
        }
        if (inner == scope) {
            break;
        }
    }
}

/* Ask one scope to stop, and queue the children that the request reaches. The caller holds the scope and the reason. 0,
 * or -1 with an exception set: nothing has changed. */
static int
ask(Kernel *k, PyObject *scope, PyObject *reason, ChildSnapshots *next)
{
    ModuleState *st = k->st;
    Task *task = scope_task(scope);
    if (scope_phase(scope) != LAW_PHASE_IDLE || task->state == LAW_STATE_DONE) {
        return 0; /* CANCEL-1 */
    }
    if (is_plain_request(scope, task, reason)) {
        law_phase_advance(&task->phase, LAW_PHASE_REQUESTED); /* CANCEL-5 */
    } else {
        if (cancel_move(st, scope, LAW_PHASE_REQUESTED) < 0) {
            return -1;
        }
        PyObject **why = is_task(scope) ? &task->extra->reason : &((CancelScope *)scope)->reason;
        Py_XSETREF(*why, Py_NewRef(reason));
    }
    if (NOTED(k, note_cancel(k, NOTE_CANCEL_REQUESTED, task, reason)) < 0) {
        return -1;
    }
    PyObject *from;
    if (interrupt(k, scope, &from) < 0) {
        k_defer_error(k);
    }
    stop_between(k, from, scope, reason, next);
    Py_DECREF(from);
    return 0;
}

int
cancel_request(Kernel *k, PyObject *scope, PyObject *reason)
{
    ChildSnapshots pending = {NULL, NULL};
    Py_INCREF(scope);
    Py_INCREF(reason);
    int result = ask(k, scope, reason, &pending);
    Py_DECREF(scope);
    Py_DECREF(reason);
    ChildSnapshot *child_snapshot;
    while ((child_snapshot = child_snapshots_take(&pending)) != NULL) {
        for (size_t i = 0; i < child_snapshot->n; i++) {
            if (ask(k, (PyObject *)child_snapshot->members[i], child_snapshot->why, &pending) < 0) {
                k_defer_error(k);
            }
        }
        child_snapshot_free(child_snapshot);
    }
    return result;
}

/* `cancel_request_nursery`, while the caller holds the nursery and the reason. */
static int
request_nursery(Kernel *k, Nursery *nursery, PyObject *reason)
{
    if (!may_stop(nursery)) {
        return 0;
    }
    if (nursery->scope != NULL && cancel_request(k, (PyObject *)nursery->scope, reason) < 0) {
        return -1;
    }
    ChildSnapshot *child_snapshot;
    if (stop_nursery(k, nursery, reason, true, &child_snapshot) < 0) {
        return nursery->scope == NULL ? -1 : k_defer_error(k);
    }
    for (size_t i = 0; child_snapshot != NULL && i < child_snapshot->n; i++) {
        if (cancel_request(k, (PyObject *)child_snapshot->members[i], child_snapshot->why) < 0) {
            k_defer_error(k);
        }
    }
    child_snapshot_free(child_snapshot);
    return 0;
}

int
cancel_request_nursery(Kernel *k, Nursery *nursery, PyObject *reason)
{
    Py_INCREF(nursery);
    Py_INCREF(reason);
    int result = request_nursery(k, nursery, reason);
    Py_DECREF(nursery);
    Py_DECREF(reason);
    return result;
}
