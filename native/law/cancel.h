/* Cancellation: the phases of a scope, and the kinds of reasons. Mirrors src/bursar/law/cancel.py.
 *
 *     IDLE ──request──► REQUESTED ──delivered at an await point──► DRAINING ──block left──► FINALIZED
 *
 * CANCEL-1  a scope is requested at most once and delivers at most once; it delivers nothing after an outer scope has
 *     delivered
 *
 * How a request travels from scope to scope depends on the caller's records, so it is not here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/enums.h"
#include "law/rule.h"

/* The name of a kind, as in `CancelKind`; NULL for any other number. */
static inline const char *
law_cancel_name(unsigned kind)
{
    static const char *const names[LAW_CANCEL_KINDS] = LAW_CANCEL_NAMES;
    return kind < LAW_CANCEL_KINDS ? names[kind] : NULL;
}

/* Change the phase of a scope, forward only (CANCEL-1), for a caller that keeps the counts itself or needs none. */
static inline void
law_phase_advance(uint8_t *phase, LawCancelPhase to)
{
    LAW_RULE(*phase < to, "CANCEL-1");
    *phase = (uint8_t)to;
}

/* Change the phase of a scope, forward only, and update two counts of its task: `requested` scopes have a request that
 * is not delivered yet, `draining` scopes have one that is delivered and are being left. To repeat a phase changes
 * nothing (CANCEL-1). With the counts, leaving a block is O(1), however many blocks are open around it. */
static inline void
law_phase_move(uint8_t *phase, LawCancelPhase to, int32_t *requested, int32_t *draining)
{
    if (*phase == to) {
        return;
    }
    *requested += (to == LAW_PHASE_REQUESTED) - (*phase == LAW_PHASE_REQUESTED);
    *draining += (to == LAW_PHASE_DRAINING) - (*phase == LAW_PHASE_DRAINING);
    law_phase_advance(phase, to);
}

/* Whether a scope has a request that can be delivered. A block that only waits for its children has nothing to
 * interrupt. */
static inline bool
law_deliverable(LawCancelPhase phase, bool exiting)
{
    return phase == LAW_PHASE_REQUESTED && !exiting;
}

/* The kind of reason that the children of a cancelled nursery get: SIBLING if a sibling failed and the request was for
 * this nursery itself (`is_target`), otherwise PARENT. */
static inline LawCancelKind
law_kind_for_children(LawCancelKind kind, bool is_target)
{
    return is_target && kind == LAW_CANCEL_SIBLING ? LAW_CANCEL_SIBLING : LAW_CANCEL_PARENT;
}

/* Whether a reason came from a parent: then its detail is passed on unchanged, so it does not grow with the depth. */
static inline bool
law_kind_inherited(LawCancelKind kind)
{
    return kind == LAW_CANCEL_PARENT || kind == LAW_CANCEL_SIBLING;
}
