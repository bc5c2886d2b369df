"""Budgets: the five components, their range, and what clamping two budgets gives."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.law.budget import CHANNEL_OPS, COMPONENTS, MEMORY, OPS, SPAWNS, SYSCALLS, UNITS_MAX, UNSTATED, Budget

repeatable = settings(derandomize=True, deadline=None, max_examples=300)


# ---- the statement


def test_the_five_components_in_their_order():
    assert COMPONENTS == ("ops", "memory", "spawns", "channel_ops", "syscalls")
    assert (OPS, MEMORY, SPAWNS, CHANNEL_OPS, SYSCALLS) == (0, 1, 2, 3, 4)
    assert Budget(1, 2, 3, 4, 5).as_tuple() == (1, 2, 3, 4, 5)
    assert Budget(ops=1, memory=2, spawns=3, channel_ops=4, syscalls=5) == Budget(1, 2, 3, 4, 5)


def test_nothing_stated_is_no_limit():
    assert Budget() == UNSTATED
    assert Budget().as_tuple() == (None,) * 5


@pytest.mark.parametrize(
    ("named", "figures"),
    [
        (Budget.none(), (0, 0, 0, 0, 0)),
        (Budget.service(), (100_000, 10_485_760, 100, 1_000, 100)),
        (Budget.cluster(), (1_000_000, 104_857_600, 1_000, 10_000, 1_000)),
        (Budget.child(), (10_000, 1_048_576, 0, 100, 10)),
    ],
    ids=["none", "service", "cluster", "child"],
)
def test_the_named_budgets(named, figures):
    assert named.as_tuple() == figures


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("value", [-1, -(2**70), UNITS_MAX + 1])
def test_a_component_out_of_range_is_refused_by_name(component, value):
    with pytest.raises(ValueError, match=rf"Budget\({component}={value}\)"):
        Budget(**{component: value})


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("value", [1.0, 1.5, math.nan, math.inf, True, "1", [1]], ids=repr)
def test_a_component_that_is_no_whole_number_is_refused_by_name(component, value):
    with pytest.raises(TypeError, match=rf"Budget\({component}="):
        Budget(**{component: value})


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_ends_of_the_range_are_inside(component):
    for value in (0, UNITS_MAX):
        assert getattr(Budget(**{component: value}), component) == value


def test_two_of_the_largest_fit_a_signed_64_bit_word():
    assert UNITS_MAX + UNITS_MAX <= 2**63 - 1


def test_a_budget_cannot_be_changed():
    with pytest.raises(AttributeError):
        Budget().ops = 5


# ---- comparing


@pytest.mark.parametrize(
    ("a", "b", "least"), [(3, 5, 3), (5, 3, 3), (4, 4, 4), (0, 5, 0), (None, 5, 5), (5, None, 5), (None, None, None)]
)
@pytest.mark.parametrize("component", COMPONENTS)
def test_clamp_takes_the_smaller_of_each_component(component, a, b, least):
    clamped = Budget(**{component: a}).clamp(Budget(**{component: b}))
    assert clamped == Budget(**{component: least})


def test_clamp_mixes_components():
    assert Budget(1, None, 9, 4, 0).clamp(Budget(5, 2, 3, None, None)) == Budget(1, 2, 3, 4, 0)


@pytest.mark.parametrize(
    ("inner", "outer", "inside"),
    [(3, 5, True), (5, 5, True), (6, 5, False), (None, 5, False), (5, None, True), (None, None, True), (0, 0, True)],
)
@pytest.mark.parametrize("component", COMPONENTS)
def test_within_holds_for_every_component(component, inner, outer, inside):
    others = {c: 1 for c in COMPONENTS if c != component}
    a, b = Budget(**others, **{component: inner}), Budget(**others, **{component: outer})
    assert a.within(b) is inside


def test_a_budget_prints_what_it_states():
    assert str(Budget()) == "unlimited"
    assert str(Budget(ops=10_000, syscalls=0)) == "ops=10,000, syscalls=0"


@repeatable
@given(
    st.tuples(*[st.one_of(st.none(), st.integers(0, 9))] * 5),
    st.tuples(*[st.one_of(st.none(), st.integers(0, 9))] * 5),
)
def test_clamp_and_within_agree(a, b):
    a, b = Budget(*a), Budget(*b)
    least = a.clamp(b)
    assert least == b.clamp(a)
    assert least.within(a)
    assert least.within(b)
    assert a.within(b) is (least == a)
