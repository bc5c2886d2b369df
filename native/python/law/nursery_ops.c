/* Opening, closing and ending nurseries. After law/kernel.py.
 *
 * A nursery ends only in the await of its block, when every child has ended. Python methods handle the rare case of
 * explicit capabilities.
 */

#include "python/law/nursery_ops.h"
#include "python/cpython/context.h"
#include "python/law/cancel.h"
#include "python/law/cleanup.h"
#include "python/law/deferred_error.h"
#include "python/law/nursery.h"
#include "python/law/nursery_ops_fast.h"
#include "python/law/pool.h"
#include "python/law/scope.h"
#include "python/law/spawn_fast.h"
#include "python/law/task.h"
#include "python/module/seam.h"
#include "python/trace/events.h"

/* The capabilities of the children of a new nursery: all that its owner holds, unless the program states others or the
 * owner holds a CapBudget, which is not inherited. New reference. */
static PyObject *
nursery_capabilities(Kernel *k, Task *owner, PyObject *stated)
{
    PyObject *own = owner->terms->capabilities;
    if (is_plain_inheritance(k, own, stated)) {
        return Py_NewRef(own);
    }
    if (stated == NULL && PyDict_CheckExact(own) && PyDict_Contains(own, k->st->CapBudget) == 0) {
        Py_XSETREF(k->caches.inherited_capabilities, Py_NewRef(own));
        return Py_NewRef(own);
    }
    PyObject *args[] = {(PyObject *)k, (PyObject *)owner, stated ? stated : Py_None};
    return context_leave(k) < 0 ? NULL : py_call(k->st, PY_nursery_capabilities, args, 3); /* CONTEXT-3 */
}

Nursery *
k_open_nursery(Kernel *k, Task *owner, PyObject *name, PyObject *budget, PyObject *capabilities)
{
    if ((!holds_checked_spawn_cap(k, owner) && k_capability(k, owner, k->st->CapSpawn, "open a nursery") == NULL) ||
        task_extra(owner) == NULL) {
        return NULL;
    }
    PyObject *held = nursery_capabilities(k, owner, capabilities), *pools = NULL, *title = NULL;
    PyObject *granted = Py_NewRef(budget);
    Nursery *nursery = NULL;
    if (held != NULL && name != NULL) {
        title = PyUnicode_FromFormat("nursery %R", name);
    }
    if (held == NULL || (name != NULL && title == NULL) ||
        (pools = pools_for(k, owner->terms->pools, &granted)) == NULL) {
        goto done;
    }
    nursery = nursery_new(k, k->next_id, title, owner, pools, owner->terms->pools, held);
    if (nursery != NULL && (nursery->scope = cancel_scope_new(k->st, owner)) == NULL) {
        Py_CLEAR(nursery);
    }
    if (nursery == NULL) {
        return_pools(k, pools, owner->terms->pools);
        goto done;
    }
    k->next_id += 1;
    nursery->explicit_caps = capabilities != NULL;
    if (nursery->explicit_caps) {
        gc_aside_show_one((PyObject *)nursery); /* ASIDE-1 */
    }
    gc_aside_keep(&k->gc_aside, (PyObject *)nursery->scope);
    nursery->scope->body_of = (Nursery *)Py_NewRef((PyObject *)nursery);
    law_queue_append(&owner->extra->owned, &nursery->owned_link);
    Py_INCREF(nursery);
    if (NOTED(k, note_nursery_opened(k, nursery, granted)) < 0) {
        Py_CLEAR(nursery);
    }
done:
    Py_XDECREF(held);
    Py_XDECREF(pools);
    Py_XDECREF(granted);
    Py_XDECREF(title);
    return nursery;
}

int
k_close_nursery(Kernel *k, Nursery *nursery)
{
    CancelScope *scope = nursery->scope;
    if (scope == NULL ? nursery->state != LAW_NURSERY_OPEN : scope->exiting) {
        return 0;
    }
    if (scope == NULL) {
        law_nursery_move(&nursery->state, LAW_NURSERY_CLOSING);
    } else {
        scope->exiting = true;
        nursery_close_if_over(nursery);
    }
    if (NOTED(k, note_nursery(k, NOTE_NURSERY_CLOSING, nursery)) < 0) {
        return -1;
    }
    if (scope != NULL && nursery->owner != NULL) {
        if (nursery->state == LAW_NURSERY_CANCELLING && cancel_pause_cleanup(k, nursery->owner) < 0) {
            return -1;
        }
        cancel_look(k->st, nursery->owner);
    }
    return 0;
}

/* Whether an ended nursery refers only to its kernel, its owner and what these two refer to. */
static bool
is_plain(const Nursery *nursery)
{
    const CancelScope *scope = nursery->scope;
    return nursery->failures == NULL && nursery->failed == NULL && nursery->reason == NULL &&
           nursery->joining == NULL && nursery->exhausted == NULL && nursery->exhausted_waiter == NULL &&
           nursery->ends == NULL && nursery->ends_waiter == NULL && nursery->drops == NULL && nursery->gate == NULL &&
           scope->reason == NULL && scope->timer == NULL;
}

int
k_end_nursery(Kernel *k, Nursery *nursery)
{
    Task *owner = nursery->owner;
    if (nursery->scope != NULL && cancel_require_innermost(k, nursery->scope) < 0) {
        return -1;
    }
    bool cancelled = nursery->state == LAW_NURSERY_CANCELLING;
    if (nursery_move(nursery, cancelled ? LAW_NURSERY_CANCELLED : LAW_NURSERY_CLOSED) < 0) {
        return -1;
    }
    k->draining_nurseries -= cancelled;
    if (NOTED(k, note_nursery(k, NOTE_NURSERY_CLOSED, nursery)) < 0) {
        return -1;
    }
    if (owner == NULL) {
        return 0;
    }
    LAW_RULE(nursery->scope != NULL && owner->extra != NULL && law_linked(&nursery->owned_link), "NURSERY-1");
    law_queue_remove(&owner->extra->owned, &nursery->owned_link);
    return_pools(k, nursery->pools, nursery->purse_of);
    if (LIKELY(is_plain_leave(owner, nursery->scope))) {
        leave_fast(owner, nursery->scope);
    } else if (cancel_leave(k, nursery->scope) < 0 || cancel_resume_cleanup(k, owner) < 0) {
        k_defer_error(k); /* the nursery has ended: complete the change */
    }
    Py_CLEAR(nursery->scope->body_of); /* the nursery and its scope own each other */
    if (!is_plain(nursery)) {
        gc_aside_show(&k->gc_aside, (PyObject *)k); /* ASIDE-2 */
    }
    Py_DECREF(nursery); /* the reference of `owned` */
    return 0;
}
