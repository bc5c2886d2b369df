"""The resources of a gate: sizes and limits, what a task takes, and whether a demand fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar import InfeasibleDemand, Soft
from bursar.law.admission.resources import ALIKE_MAX, AMOUNT_MAX, Resources, in_words, limits_of, to_amount


def books(slots=None, **resources) -> Resources:
    return Resources(slots, limits_of(resources))


def demand(resources: Resources, **needs):
    return resources.demand(needs, "t")[0]


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (7, 7),
        (7.0, 7),
        ("7", 7),
        ("512MiB", 512 * 2**20),
        ("2GB", 2 * 10**9),
        ("2 gib", 2 * 2**30),
        ("1.5KiB", 1536),
        ("10b", 10),
        ("3k", 3000),
        (" 1 TiB ", 2**40),
    ],
)
def test_sizes(value, amount):
    assert to_amount(value, "ram") == amount


@pytest.mark.parametrize(
    "value", ["", "MiB", "1XB", "1.0.0", "-1", "0.5", -1, 0.5, True, None, [], AMOUNT_MAX + 1, 2**63, float("inf")]
)
def test_what_is_no_size(value):
    with pytest.raises(ValueError, match="ram"):
        to_amount(value, "ram")


@pytest.mark.parametrize("value", ["0", "1", "1,023", "1 MiB", "1,536 MiB", "2 GiB", "1,024 GiB", "1,500,000,000"])
def test_an_amount_in_words_is_what_people_write(value):
    assert in_words(to_amount(value.replace(",", ""), "ram")) == value


def test_a_slot_is_taken_by_everybody():
    gate = books(2)
    one = demand(gate)
    gate.take(one)
    gate.take(one)
    assert not gate.fits(one)
    gate.give_back(one)
    assert gate.fits(one)


def test_what_nobody_limits_costs_nothing():
    gate = books(cpu=None, ram=None)
    assert demand(gate, cpu=100, ram="1TiB") == ()


def test_a_hard_limit_is_never_exceeded():
    gate = books(cpu=4)
    gate.take(demand(gate, cpu=3))
    assert gate.fits(demand(gate, cpu=1))
    assert not gate.fits(demand(gate, cpu=2))


def test_a_demand_that_can_never_be_met_is_refused():
    with pytest.raises(InfeasibleDemand, match="needs 5 of cpu, and there are 4 in all"):
        demand(books(cpu=4), cpu=5)


def test_a_resource_that_is_not_there_is_refused_and_says_what_there_is():
    with pytest.raises(InfeasibleDemand, match=r"needs 'gpu'.*it has: cpu, ram"):
        demand(books(cpu=4, ram=1), gpu=1)


def test_nobody_asks_for_a_slot_by_name():
    with pytest.raises(InfeasibleDemand, match="slot"):
        demand(books(2), slot=1)


def test_one_alone_may_exceed_a_soft_limit():
    gate = books(cpu=4, ram=100)
    big, small = demand(gate, ram=150), demand(gate, ram=1)
    assert gate.fits(big)
    gate.take(big)
    assert not gate.fits(small)
    gate.give_back(big)
    gate.take(small)
    assert not gate.fits(big)


def test_alone_means_alone_with_that_resource():
    gate = books(cpu=4, ram=100)
    gate.take(demand(gate, cpu=3))
    assert gate.fits(demand(gate, ram=150))


def test_what_is_short_is_what_does_not_fit():
    gate = books(1, cpu=2, ram=100)
    gate.take(demand(gate, cpu=1))
    short = gate.shortages(demand(gate, cpu=2, ram=100))
    assert [(s.resource, s.needed, s.limit, s.taken) for s in short] == [("slot", 1, 1, 1), ("cpu", 2, 2, 1)]


def test_who_asks_for_the_same_shares_one_demand_as_long_as_they_are_few():
    gate = books(cpu=4, ram=10**9)
    assert demand(gate, cpu=1, ram=5) is demand(gate, cpu=1, ram="5")
    for ram in range(2 * ALIKE_MAX):
        assert demand(gate, ram=ram + 1) == ((2, ram + 1),)
    assert demand(gate, ram=2 * ALIKE_MAX) is not demand(gate, ram=2 * ALIKE_MAX)


def test_what_would_keep_a_reservation_from_being_met():
    gate = books(cpu=4, ram=Soft(10))
    reserved = demand(gate, cpu=4)
    gate.take(demand(gate, cpu=2))
    assert gate.breaks_reservation(demand(gate, cpu=1), reserved)
    assert not gate.breaks_reservation(demand(gate, ram=5), reserved)


def test_who_stands_still_gives_back_slot_and_processor_and_keeps_the_rest():
    gate = books(2, cpu=4, ram=10)
    whole = demand(gate, cpu=2, ram=5)
    assert [gate.name(number) for number, _ in gate.lendable(whole)] == ["slot", "cpu"]


def test_what_will_never_drain():
    gate = books(cpu=2, ram=Soft(10))
    gate.take(demand(gate, ram=4))
    gate.keep(demand(gate, ram=4), 1)
    assert gate.drains(demand(gate, ram=6))
    assert not gate.drains(demand(gate, ram=7))
    assert not gate.drains(demand(gate, ram=11))
    gate.keep(demand(gate, ram=4), -1)
    assert gate.drains(demand(gate, ram=11))


amounts = st.integers(0, 6)


@given(st.lists(st.tuples(amounts, amounts, st.booleans()), max_size=40))
def test_whatever_is_taken_when_it_fits_keeps_the_limits(wishes):
    gate = books(3, cpu=5, ram=5)
    held = []
    for cpu, ram, leaves in wishes:
        wish = demand(gate, cpu=min(cpu, 5), ram=ram)
        if gate.fits(wish):
            gate.take(wish)
            held.append(wish)
        if leaves and held:
            gate.give_back(held.pop(0))
        slots, cpus, rams = gate.taken
        takers = sum(any(number == 2 for number, _ in wish) for wish in held)
        assert slots <= 3
        assert cpus <= 5
        assert rams <= 5 or takers == 1
