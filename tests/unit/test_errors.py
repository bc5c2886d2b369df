"""The family of errors: one root, one exception to it, and the standard types that some of them are as well."""

import inspect

import pytest

import bursar
from bursar import errors

ALL = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, BaseException)]


def test_everything_has_one_root_but_what_no_except_exception_should_catch():
    outside = {e for e in ALL if not issubclass(e, errors.BursarError)}
    assert outside == {errors.Cancelled, errors.NativePanic}
    assert issubclass(errors.BursarError, Exception)


def test_cancelled_is_no_exception():
    assert issubclass(errors.Cancelled, BaseException)
    assert not issubclass(errors.Cancelled, Exception)


@pytest.mark.parametrize(
    ("error", "standard"),
    [
        (errors.MemoryBudgetExceeded, MemoryError),
        (errors.ForeignAwait, TypeError),
        (errors.NotBuilt, NotImplementedError),
        (errors.IllegalTransition, AssertionError),
    ],
)
def test_some_are_standard_errors_too(error, standard):
    assert issubclass(error, standard)


def test_the_lines_of_descent():
    assert issubclass(errors.CapabilityForged, errors.CapabilityDenied)
    assert issubclass(errors.CapabilityRevoked, errors.CapabilityDenied)
    assert issubclass(errors.SpawnBudgetExceeded, errors.BudgetExceeded)
    assert issubclass(errors.MemoryBudgetExceeded, errors.BudgetExceeded)


@pytest.mark.parametrize("error", [e for e in ALL if e is not errors.IllegalTransition], ids=lambda e: e.__name__)
def test_every_error_that_a_program_can_meet_has_a_public_name(error):
    assert getattr(bursar, error.__name__) is error
    assert error.__name__ in bursar.__all__
    assert error.__doc__


def test_what_they_carry():
    reason = bursar.CancelReason(bursar.CancelKind.USER, "enough", 7)
    assert str(errors.Cancelled(reason)) == "user: enough"
    assert errors.Cancelled(reason).reason is reason
    short = errors.BudgetExceeded("text", task="t", component="ops")
    assert (str(short), short.code, short.task, short.component) == ("text", -3, "t", "ops")
    stuck = errors.Deadlock("stuck:", "a ← b")
    assert stuck.graph == "a ← b"
    assert str(stuck) == "stuck:\na ← b"
