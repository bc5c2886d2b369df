"""Aging: the priority that counts grows by `boost` for each whole interval of waiting."""

from bursar.law.admission.aging import effective_priority


def test_without_aging_a_long_wait_adds_nothing():
    assert effective_priority(10, 10**18, 10, 0) == 10


def test_with_aging_each_whole_interval_counts():
    assert [effective_priority(10, wait_ns, 10, 3) for wait_ns in (0, 9, 10, 19, 20)] == [10, 10, 13, 13, 16]
