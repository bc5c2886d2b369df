/* What is done with nurseries, the fast paths. The slow twins are `k_capability` in spawn.c for opening a nursery, and
 * `cancel_leave` in cancel.c for leaving its block.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/nursery_ops.h"
#include "python/law/task.h"

/* Whether the ticket of the owner is the one that was found good for spawning last. */
static inline bool
is_known_to_spawn(const Kernel *k, const Task *owner)
{
    return FAST_PATHS && owner->terms == k->caches.spawn_terms && PySet_GET_SIZE(k->revoked) == 0;
}

/* Whether nobody has asked the owner, or any block of its, to stop, and the innermost one has no time limit. */
static inline bool
is_untouched(const Task *owner, const CancelScope *scope)
{
    const TaskExtra *extra = owner->extra;
    return FAST_PATHS && extra->requested == 0 && extra->draining == 0 && extra->cleanup_left < 0 &&
           scope->phase == LAW_PHASE_IDLE && scope->timer == NULL;
}

/* What `cancel_leave` comes to there: the block around it, if there is one, is the innermost again. The end of a nursery is
 * told by itself. */
static inline void
leave_untouched(Task *owner, CancelScope *scope)
{
    law_phase_advance(&scope->phase, LAW_PHASE_FINALIZED);
    owner->cancel_pending = 0;
    owner->extra->inner = is_task(scope->parent) ? NULL : (CancelScope *)Py_NewRef(scope->parent);
    Py_DECREF(scope); /* its nursery holds it as well */
}
