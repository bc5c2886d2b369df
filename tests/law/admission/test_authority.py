"""The rules of a gate: what may be said, and that evidence can say it again."""

import pytest
from support.admission import Limit

from bursar import Aging, Authority, Hard, Priority, Soft, Strict
from bursar.law.admission.authority import PRIORITY_MAX, require_priority


def test_larger_numbers_go_first():
    assert Priority.HIGH > Priority.NORMAL > Priority.LOW


@pytest.mark.parametrize("priority", [Priority.LOW, 0, -7, PRIORITY_MAX])
def test_any_whole_number_is_a_priority(priority):
    assert require_priority(priority) == int(priority)


@pytest.mark.parametrize("priority", [1.5, "high", True, None])
def test_nothing_else_is(priority):
    with pytest.raises(TypeError, match="larger goes first"):
        require_priority(priority)


def test_a_priority_has_its_limits():
    with pytest.raises(ValueError, match="between"):
        require_priority(PRIORITY_MAX + 1)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"order": "strict"}, "order"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"max_concurrent": True}, "max_concurrent"),
        ({"max_queue": -1}, "max_queue"),
        ({"max_wait": -1}, "max_wait"),
        ({"max_wait": float("nan")}, "max_wait"),
        ({"reserve_after": -1}, "reserve_after"),
        ({"pause_timeout": -0.1}, "pause_timeout"),
        ({"resources": [("cpu", 1)]}, "resources"),
        ({"resources": {"": 1}}, "name"),
        ({"resources": {"slot": 1}}, "name"),
        ({"resources": {"cpu": -1}}, "cpu"),
        ({"resources": {"ram": "much"}}, "ram"),
        ({"resources": {"cpu": 1.5}}, "whole"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, what):
    with pytest.raises((TypeError, ValueError), match=what):
        Authority(**wrong)


@pytest.mark.parametrize("wrong", [{"interval": 0}, {"interval": -1}, {"boost": 0}, {"boost": 1.5}])
def test_aging_that_does_not_age_is_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="Aging"):
        Aging(**wrong)


def test_what_is_soft_and_what_is_hard():
    resources = {"cpu": 4, "ram": "2GiB", "vram": Hard("8GB"), "licences": 3, "bandwidth": Soft(100), "disk": None}
    assert Authority(resources=resources)._limits == (
        Limit("cpu", 4, False),
        Limit("ram", 2 * 2**30, True),
        Limit("vram", 8 * 10**9, False),
        Limit("licences", 3, False),
        Limit("bandwidth", 100, True),
        Limit("disk", None, False),
    )


def test_a_reservation_comes_after_three_intervals_unless_it_is_said():
    assert Authority(order=Aging(interval=0.2))._reserve_after_ns == 600_000_000
    assert Authority()._reserve_after_ns == 1_500_000_000
    assert Authority(reserve_after=0)._reserve_after_ns == 0


@pytest.mark.parametrize(
    "authority",
    [
        Authority(),
        Authority(order=Aging(0.25, 3), max_concurrent=2, max_queue=0, max_wait=1.5, reserve_after=2.0),
        Authority(
            order=Strict(), resources={"cpu": 2, "ram": "1GiB", "x": Hard(None), "y": Soft(0)}, pause_timeout=0.5
        ),
    ],
)
def test_what_is_written_can_be_read(authority):
    again = Authority._read(authority._written())
    assert again._written() == authority._written()
    assert (again.order, again._limits, again._reserve_after_ns) == (
        authority.order,
        authority._limits,
        authority._reserve_after_ns,
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"aging": 3}', "null"])
def test_what_is_no_authority_is_refused(text):
    with pytest.raises((ValueError, TypeError, KeyError)):
        Authority._read(text)


def test_an_authority_never_changes_its_mind():
    with pytest.raises(AttributeError):
        Authority().max_queue = 3
