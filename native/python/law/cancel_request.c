/* How a request to stop travels: from a scope to the nurseries opened inside it, to their children, to the nurseries of
 * those. After `request`, `request_nursery`, `_interrupt` and `_stop_nursery` in src/bursar/law/cancel.py.
 *
 * It is a loop over a queue, not a recursion: a chain of a hundred thousand nested nurseries is legal. What differs
 * from the Python code, and why:
 *   1. The queue holds families, not single children. All children of one nursery hear the same reason, so a nursery of
 *      a hundred thousand costs one piece of memory. The order is the same: families in the order in which their
 *      nurseries were stopped, children in the order of spawning.
 *   2. The reason and the place for the children of a nursery are made before it is stopped: without memory nothing
 *      has happened to it yet. If nothing at all has happened, whoever asked is told; else the request travels on as
 *      far as it can, and ends the run (`k_defer_error`), because it cannot be half made.
 *   3. The nurseries that a request reaches are not listed but walked twice. What is open around a block never changes
 *      (scope.c), and one that ended in between is stopped by nobody, listed or not.
 *
 * Observers and waits that are written in Python run in the middle (RECORD-3): a family owns its members, a walk owns the
 * block that it starts from.
 */

#include "python/law/cancel_request.h"
#include "python/fast_paths.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/nursery.h"
#include "python/law/observer.h"
#include "python/law/scope.h"
#include "python/law/task.h"
#include "python/law/wake.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* The children of one nursery, as they were when it was stopped, and what they hear. */
typedef struct ChildSnapshot {
    struct ChildSnapshot *next;
    PyObject *why; /* owned */
    size_t room, n;
    Task *members[]; /* owned */
} ChildSnapshot;

/* Families that are still to be asked, in order. */
typedef struct ChildSnapshots {
    ChildSnapshot *first;
    ChildSnapshot *last;
} ChildSnapshots;

/* Lets go of a family. NULL is none. */
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

/* Puts a family at the end of the queue, which owns it from here on. NULL is none. */
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

/* Takes the first family out; NULL if there is none. */
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

/* A new CancelReason, or NULL with an exception set. */
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

/* The kind of a reason. 0, or -1 with an exception set. One that is none of ours counts as the user's. */
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

/* What the children of a nursery that is cancelled for `reason` hear: a sibling's failure as such, and of everything
 * else that their parent is being cancelled. The detail travels on as it is: a reason does not grow with the depth of
 * the tree. New reference, or NULL with an exception set. */
static PyObject *
why_for_children(ModuleState *st, Nursery *nursery, PyObject *reason, bool at_home)
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
        why = cancel_reason_new(st, law_kind_for_children(kind, at_home), detail, by);
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

/* A family with its reason and a place for each child of the nursery, and nobody in it yet. *family is NULL if there
 * are no children. 0, or -1 with an exception set. */
static int
child_snapshot_new(ModuleState *st, Nursery *nursery, PyObject *reason, bool at_home, ChildSnapshot **child_snapshot)
{
    *child_snapshot = NULL;
    if (law_queue_empty(&nursery->children)) {
        return 0;
    }
    PyObject *why = why_for_children(st, nursery, reason, at_home);
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

/* Lists the children that the nursery has now. There is room: since it was counted it took none (NURSERY-2). */
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

/* What follows for a nursery that is moved to CANCELLING. 0, or -1 with an exception set. */
static int
begin_cancelling(Kernel *k, Nursery *nursery, PyObject *reason)
{
    if (nursery_move(nursery, LAW_NURSERY_CANCELLING) < 0) {
        return -1;
    }
    k->draining_regions += 1;
    Py_XSETREF(nursery->reason, Py_NewRef(reason));
    if (NOTED(k, note_nursery(k, NOTE_NURSERY_CANCELLING, nursery)) < 0) {
        return -1;
    }
    bool waits = nursery->scope != NULL && nursery->scope->exiting && nursery->owner != NULL;
    return waits ? cancel_pause_cleanup(k, nursery->owner) : 0;
}

/* Move a nursery to CANCELLING. *family: its children, who come next; NULL if there are none, or if it was stopped
 * before. 0, or -1 with an exception set. */
static int
stop_nursery(Kernel *k, Nursery *nursery, PyObject *reason, bool at_home, ChildSnapshot **child_snapshot)
{
    *child_snapshot = NULL;
    if (!may_stop(nursery)) {
        return 0;
    }
    if (child_snapshot_new(k->st, nursery, reason, at_home, child_snapshot) < 0) {
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

/* Make the task notice the request, if no shield is in between. *from is the innermost scope whose nurseries the
 * request reaches, a new reference even if this fails. 0, or -1 with an exception set. */
static int
interrupt(Kernel *k, PyObject *scope, PyObject **from)
{
    Task *task = scope_task(scope);
    CancelScope *block = task_inner(task);
    *from = block != NULL ? (PyObject *)block : (PyObject *)task;
    bool hidden = false;
    while (block != NULL && (PyObject *)block != scope) {
        if (block->shielded && task->state == LAW_STATE_EXHAUSTED) {
            block->shielded = false; /* on hold: it cannot run, and nobody recharges what is being cancelled */
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

/* Stop the nurseries between `from` and `scope`, innermost first; their children come next. */
static void
stop_between(Kernel *k, PyObject *from, PyObject *scope, PyObject *reason, ChildSnapshots *next)
{
    for (PyObject *inner = from; !is_task(inner); inner = scope_parent(inner)) {
        Nursery *nursery = (Nursery *)Py_XNewRef((PyObject *)((CancelScope *)inner)->body_of);
        if (nursery != NULL) {
            bool at_home = (PyObject *)nursery->scope == scope; /* it was this nursery that was asked to stop */
            ChildSnapshot *child_snapshot;
            if (stop_nursery(k, nursery, reason, at_home, &child_snapshot) < 0) {
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

/* Ask one scope to stop, and queue whom else that concerns. The caller holds the scope and the reason. 0, or -1 with
 * an exception set, and then nothing has changed. */
static int
ask(Kernel *k, PyObject *scope, PyObject *reason, ChildSnapshots *next)
{
    ModuleState *st = k->st;
    Task *task = scope_task(scope);
    if (scope_phase(scope) != LAW_PHASE_IDLE || task->state == LAW_STATE_DONE) {
        return 0; /* CANCEL-1 */
    }
    if (FAST_PATHS && is_task(scope) && task->extra == NULL && reason == task->nursery->why) {
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

/* Ask a scope and everything it owns to stop. */
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

/* What `cancel_request_nursery` does, while it holds the nursery and the reason. */
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

/* Cancel a nursery: its children, and the body of its block in the owner. Idempotent. */
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
