"""A state machine of Hypothesis as two test cases: one that is quick and the same every time, and one for long runs."""

from __future__ import annotations

from unittest import TestCase

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine


def cases(
    machine: type[RuleBasedStateMachine], examples: int, steps: int, examples_slow: int
) -> tuple[type[TestCase], type[TestCase]]:
    """The two, to be given names that begin with `Test`."""
    quick = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    often = type(f"{machine.__name__}ForLong", (machine,), {"__module__": machine.__module__}).TestCase
    often.settings = settings(quick, max_examples=examples_slow, derandomize=False)
    often.pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
    machine.TestCase.settings = quick
    return machine.TestCase, often
