"""The states of a ticket."""

from itertools import product

import pytest
from support.kernel import Gate, Ticket

from bursar import Authority
from bursar.errors import IllegalTransition
from bursar.law.admission.ticket import HISTORY_MAX, TRANSITIONS, TicketState, move


def ticket(state=TicketState.WAITING) -> Ticket:
    return Ticket(Gate(0, Authority()), 50, (), state=state)


@pytest.mark.parametrize(("here", "there"), list(product(TicketState, TicketState)))
def test_every_move_is_in_the_table_or_refused(here, there):
    one = ticket(here)
    if there in TRANSITIONS[here]:
        move(one, there)
        assert one.state is there
    else:
        with pytest.raises(IllegalTransition):
            move(one, there)
        assert one.state is here


def test_what_is_over_stays_so():
    assert not TRANSITIONS[TicketState.DONE]


def test_nobody_is_held_that_was_asked_to_stop():
    assert TRANSITIONS[TicketState.STOPPING] == {TicketState.DONE}


def test_only_the_newest_reasons_are_kept():
    one = ticket()
    for i in range(HISTORY_MAX + 10):
        one.note(i * 10**9, f"reason {i}")
    assert len(one.history) == HISTORY_MAX
    assert one.history[-1] == (HISTORY_MAX + 9, f"reason {HISTORY_MAX + 9}")
    assert one.history[0].reason == "reason 10"


def test_what_it_keeps_is_what_it_did_not_give_back():
    one = ticket()
    one.demand = ((0, 1), (1, 2), (2, 3))
    assert one.kept() == one.demand
    one.lent, one.still = ((0, 1), (1, 2)), ((2, 3),)
    assert one.kept() == ((2, 3),)
