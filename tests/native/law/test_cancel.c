/* A scope's phases only go forward, and the counts follow. */
#include "check.h"

#include "law/cancel.h"

static void
test_the_whole_way(void)
{
    uint8_t phase = LAW_PHASE_IDLE;
    int32_t requested = 0, draining = 0;
    law_phase_move(&phase, LAW_PHASE_REQUESTED, &requested, &draining);
    CHECK(requested == 1 && draining == 0);
    law_phase_move(&phase, LAW_PHASE_REQUESTED, &requested, &draining); /* again: no effect */
    CHECK(requested == 1 && draining == 0);
    law_phase_move(&phase, LAW_PHASE_DRAINING, &requested, &draining);
    CHECK(requested == 0 && draining == 1);
    law_phase_move(&phase, LAW_PHASE_FINALIZED, &requested, &draining);
    CHECK(requested == 0 && draining == 0 && phase == LAW_PHASE_FINALIZED);
}

static void
test_short_cuts(void)
{
    uint8_t phase = LAW_PHASE_IDLE; /* out of budget: delivered without a request */
    int32_t requested = 2, draining = 0;
    law_phase_move(&phase, LAW_PHASE_DRAINING, &requested, &draining);
    CHECK(requested == 2 && draining == 1);
    phase = LAW_PHASE_REQUESTED; /* left before delivery */
    law_phase_move(&phase, LAW_PHASE_FINALIZED, &requested, &draining);
    CHECK(requested == 1 && draining == 1);
}

static void
test_never_back(void)
{
    uint8_t phase = LAW_PHASE_FINALIZED;
    int32_t requested = 0, draining = 0;
    CHECK_BREAKS("CANCEL-1", law_phase_move(&phase, LAW_PHASE_REQUESTED, &requested, &draining));
    phase = LAW_PHASE_DRAINING;
    CHECK_BREAKS("CANCEL-1", law_phase_move(&phase, LAW_PHASE_REQUESTED, &requested, &draining));
}

static void
test_kinds(void)
{
    for (unsigned kind = 0; kind < LAW_CANCEL_KINDS; kind++) {
        bool sibling = kind == LAW_CANCEL_SIBLING;
        CHECK_EQUAL(law_kind_for_children((LawCancelKind)kind, true), sibling ? LAW_CANCEL_SIBLING : LAW_CANCEL_PARENT);
        CHECK_EQUAL(law_kind_for_children((LawCancelKind)kind, false), LAW_CANCEL_PARENT);
        CHECK_EQUAL(law_kind_inherited((LawCancelKind)kind), sibling || kind == LAW_CANCEL_PARENT);
    }
    CHECK(strcmp(law_cancel_name(LAW_CANCEL_BUDGET), "budget") == 0);
    CHECK(law_cancel_name(LAW_CANCEL_KINDS) == NULL);
    CHECK(law_deliverable(LAW_PHASE_REQUESTED, false));
    CHECK(!law_deliverable(LAW_PHASE_REQUESTED, true));
    CHECK(!law_deliverable(LAW_PHASE_DRAINING, false));
}

int
main(void)
{
    test_the_whole_way();
    test_short_cuts();
    test_never_back();
    test_kinds();
    return finish();
}
