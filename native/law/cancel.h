/* Cancellation: the phases of a scope, and the kinds of reasons. Mirrors src/bursar/law/cancel.py.
 *
 *     IDLE ──request──► REQUESTED ──delivered at an await point──► DRAINING ──block left──► FINALIZED
 *
 * CANCEL-1  a scope is requested at most once and delivers at most once, and not at all once an outer one has
 *
 * How a request travels from scope to scope needs the records of whoever calls, and is theirs; what is the same for
 * all of them is here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/enums.h"
#include "law/rule.h"

/* The word for a kind, as in `CancelKind`; NULL for a number that is none. */
static inline const char *
law_cancel_name(unsigned kind)
{
    static const char *const names[LAW_CANCEL_KINDS] = LAW_CANCEL_NAMES;
    return kind < LAW_CANCEL_KINDS ? names[kind] : NULL;
}

/* Change the phase of a scope, forward only (CANCEL-1), where the counts are kept otherwise or not needed. */
static inline void
law_phase_advance(uint8_t *phase, LawCancelPhase to)
{
    LAW_RULE(*phase < to, "CANCEL-1");
    *phase = (uint8_t)to;
}

/* Change the phase of a scope, forward only, and keep count of what its task has open: `requested` scopes that were
 * asked to stop and not told yet, `draining` ones that were told and are being unwound. Repeating a phase changes
 * nothing (CANCEL-1). The counts are what makes leaving a block O(1), however many are open around it. */
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

/* Whether a scope has a request that could be delivered. One whose block only waits for its children has nothing left
 * to interrupt. */
static inline bool
law_asks(LawCancelPhase phase, bool exiting)
{
    return phase == LAW_PHASE_REQUESTED && !exiting;
}

/* What the children of a cancelled nursery hear: a sibling's failure as such if it happened in this very nursery
 * (`at_home`), of everything else that their parent is being cancelled. */
static inline LawCancelKind
law_kind_for_children(LawCancelKind kind, bool at_home)
{
    return at_home && kind == LAW_CANCEL_SIBLING ? LAW_CANCEL_SIBLING : LAW_CANCEL_PARENT;
}

/* Whether a reason was handed down already: its detail then travels on as it is, and does not grow with the depth. */
static inline bool
law_kind_inherited(LawCancelKind kind)
{
    return kind == LAW_CANCEL_PARENT || kind == LAW_CANCEL_SIBLING;
}
