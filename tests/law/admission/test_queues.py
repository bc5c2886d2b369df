"""The order of the queued tickets, and which of them were overtaken, compared with a score of each ticket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.kernel import Gate, Queues, Ticket

from bursar import Authority

INTERVAL = 10
GATE = Gate(1, Authority())


def ticket(priority=50, demand=(), at=0):
    one = Ticket(GATE, priority, demand)
    one.ready_ns = at
    return one


def filled(boost, *tickets) -> Queues:
    queues = Queues(INTERVAL, boost)
    for one in tickets:
        queues.enter(one)
    return queues


def test_higher_classes_first_and_first_come_first_served_inside():
    low, first, second, high = ticket(10), ticket(), ticket(), ticket(100)
    queues = filled(0, low, first, second, high)
    assert queues.firsts(0) == [high, first, low]
    queues.leave(first)
    assert queues.firsts(0) == [high, second, low]
    assert queues.last(0) is low


def test_equals_go_by_who_came_first():
    older, younger = ticket(10, at=0), ticket(13, at=10)
    assert filled(3, older, younger).firsts(10) == [older, younger]
    more_urgent = ticket(14, at=10)
    assert filled(3, older, more_urgent).firsts(10) == [more_urgent, older]


def test_lengths_by_priority():
    queues = filled(0, ticket(10), ticket(), ticket(), ticket(100))
    assert queues.lengths() == {100: 1, 50: 2, 10: 1}
    assert len(queues) == 4


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 50]), st.sampled_from([(), ((0, 1),), ((0, 2),)]), st.integers(0, 60)),
        min_size=1,
    ),
    st.sampled_from([0, 1, 2, 40]),
)
def test_the_first_of_all_is_the_one_with_the_best_score(wishes, boost):
    """The firsts of the classes contain, in order, whoever would be first by a look at everybody."""
    queues = Queues(INTERVAL, boost)
    everybody = []
    for priority, demand, at in sorted(wishes, key=lambda wish: wish[2]):
        one = ticket(priority, demand, at)
        queues.enter(one)
        everybody.append(one)
    now = 60
    scored = sorted(everybody, key=lambda p: (-(p.priority + (now - p.ready_ns) // INTERVAL * boost), p.place))
    for one in scored:
        assert queues.firsts(now)[0] is one
        queues.leave(one)
    assert not queues
    assert not queues.lengths()


def test_the_last_of_all_is_the_one_with_the_worst_score():
    one, two, three = ticket(50), ticket(10), ticket(10)
    assert filled(0, one, two, three).last(0) is three


def test_starvation_begins_when_somebody_of_higher_priority_is_let_in():
    low, high = ticket(10, at=0), ticket(100, at=5)
    queues = filled(0, low, high)
    assert queues.starved_ns(low, 7) == 0
    queues.leave(high)
    queues.let_in(high, 7)
    assert queues.starved_ns(low, 7) == 0
    assert queues.starved_ns(low, 27) == 20


def test_equal_priorities_starve_nobody():
    one, other = ticket(), ticket()
    queues = filled(0, one, other)
    queues.leave(other)
    queues.let_in(other, 5)
    assert queues.starved_ns(one, 100) == 0


def test_who_came_after_the_overtaking_has_not_been_overtaken():
    low, high, late = ticket(10, at=0), ticket(100, at=0), ticket(10, at=8)
    queues = filled(0, low, high)
    queues.leave(high)
    queues.let_in(high, 7)
    queues.enter(late)
    assert queues.starved_ns(low, 10) == 3
    assert queues.starved_ns(late, 10) == 0


def test_nor_has_who_came_after_it_in_the_same_moment():
    low, high, late = ticket(10, at=7), ticket(100, at=7), ticket(10, at=7)
    queues = filled(0, low, high)
    queues.leave(high)
    queues.let_in(high, 7)
    queues.enter(late)
    assert queues.starved_ns(low, 10) == 3
    assert queues.starved_ns(late, 10) == 0


@pytest.mark.parametrize("boost", [0, 5])
def test_ahead_is_everybody_with_a_better_rank(boost):
    tickets = [ticket(p, at=i) for i, p in enumerate([50, 10, 100, 50])]
    queues = filled(boost, *tickets)
    assert queues.ahead(tickets[1], 3) == [tickets[2], tickets[0], tickets[3]]
