/* Opening and ending nurseries, the fast paths. The slow twins are `nursery_capabilities` in nursery_ops.c, and
 * `cancel_leave` in cancel.c for leaving the block.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/nursery_ops.h"
#include "python/law/task.h"

/* Whether the owner's capabilities, which the children get if the program states none, were inherited as a whole before. A
 * mapping of capabilities never changes. */
static inline bool
is_plain_inheritance(const Kernel *k, const PyObject *own, const PyObject *stated)
{
    return FAST_PATHS && stated == NULL && own == k->caches.inherited_capabilities;
}

/* Whether neither the owner nor any of its cancel scopes was asked to stop, and `scope` has no deadline. */
static inline bool
is_plain_leave(const Task *owner, const CancelScope *scope)
{
    const TaskExtra *extra = owner->extra;
    return FAST_PATHS && extra->requested == 0 && extra->draining == 0 && extra->cleanup_left < 0 &&
           scope->phase == LAW_PHASE_IDLE && scope->timer == NULL;
}

/* What `cancel_leave` does in that case: the next outer cancel scope, if any, becomes the innermost one. There is no
 * event: the end of a nursery has its own. */
static inline void
leave_fast(Task *owner, CancelScope *scope)
{
    law_phase_advance(&scope->phase, LAW_PHASE_FINALIZED);
    owner->cancel_pending = 0;
    owner->extra->inner = is_task(scope->parent) ? NULL : (CancelScope *)Py_NewRef(scope->parent);
    Py_DECREF(scope); /* the nursery holds another reference */
}
