/* The legal moves of a ticket. */
#include "check.h"

#include "law/admission/ticket.h"

static void
test_the_drawing(void)
{
    CHECK(law_ticket_may_move(LAW_TICKET_WAITING, LAW_TICKET_QUEUED));
    CHECK(law_ticket_may_move(LAW_TICKET_WAITING, LAW_TICKET_ADMITTED));
    CHECK(law_ticket_may_move(LAW_TICKET_QUEUED, LAW_TICKET_WAITING));
    CHECK(law_ticket_may_move(LAW_TICKET_ADMITTED, LAW_TICKET_LENT));
    CHECK(law_ticket_may_move(LAW_TICKET_RETURNING, LAW_TICKET_ADMITTED));
    CHECK(law_ticket_may_move(LAW_TICKET_LENT, LAW_TICKET_ADMITTED)); /* asked to stop */
    CHECK(!law_ticket_may_move(LAW_TICKET_ADMITTED, LAW_TICKET_QUEUED));
    CHECK(!law_ticket_may_move(LAW_TICKET_LENT, LAW_TICKET_QUEUED));
    CHECK(!law_ticket_may_move(LAW_TICKET_STOPPING, LAW_TICKET_ADMITTED));
    CHECK(!law_ticket_may_move(LAW_TICKETS, 0));
    CHECK(!law_ticket_may_move(0, LAW_TICKETS));
}

static void
test_all_end_and_what_is_over_stays_over(void)
{
    for (unsigned state = 0; state < LAW_TICKETS; state++) {
        CHECK_EQUAL(law_ticket_may_move(state, LAW_TICKET_DONE), state != LAW_TICKET_DONE);
        CHECK(!law_ticket_may_move(LAW_TICKET_DONE, state));
    }
}

static void
test_a_move(void)
{
    uint8_t state = LAW_TICKET_WAITING;
    law_ticket_move(&state, LAW_TICKET_ADMITTED);
    law_ticket_move(&state, LAW_TICKET_DONE);
    CHECK_EQUAL(state, LAW_TICKET_DONE);
}

int
main(void)
{
    test_the_drawing();
    test_all_end_and_what_is_over_stays_over();
    test_a_move();
    return finish();
}
