"""A crowd that is asked to stop: what each of its tasks sees of its own end, however little of it is really made.

The native kernel throws one error into many, where nobody can tell. Both kernels must pass: these are the places where
somebody could.
"""

from __future__ import annotations

import traceback

import bursar
from bursar import Cancelled, Event, Runtime, nursery


def cancel_crowd(work, size=6, runtime=None, last=None):
    """Let `size` tasks of `work(number)` wait, and cancel them together. What `last` says in the end."""

    async def main():
        async with nursery() as crowd:
            for number in range(size):
                crowd.spawn(work, number)
            await bursar.sleep(1)
            crowd.cancel()
        return last() if last else None

    return (runtime or Runtime(clock="virtual")).run(main)


def passes(error):
    """How many times the traceback of an error shows the function that it was thrown into."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)].count("work")


def test_an_error_that_is_kept_belongs_to_one_task():
    kept = []

    async def work(number):
        try:
            await Event().wait()
        except Cancelled as error:
            if number % 2:
                error.add_note(str(number))
                kept.append(error)
            raise

    cancel_crowd(work)
    assert [error.__notes__ for error in kept] == [["1"], ["3"], ["5"]]
    assert len({id(error) for error in kept}) == 3
    assert [passes(error) for error in kept] == [1, 1, 1]
    assert len({id(error.reason) for error in kept}) == 1  # they were asked together


def test_what_one_task_does_to_its_error_no_other_sees():
    seen = []

    async def work(number):
        try:
            await Event().wait()
        except Cancelled as error:
            marks = (error.__context__, error.__cause__, error.__suppress_context__, getattr(error, "__notes__", None))
            seen.append((marks, dict(vars(error)), len(error.args), passes(error)))
            if number == 0:
                error.mark = number
            elif number == 1:
                error.add_note("a note")
            elif number == 2:
                error.args = (*error.args, "more")
            elif number == 3:
                raise error from ValueError(number)
            elif number == 4:
                error.__context__ = ValueError(number)
            raise

    cancel_crowd(work)
    assert seen == [((None, None, False, None), {}, 1, 1)] * 6


def test_an_error_has_the_context_of_its_own_await():
    seen = []

    async def work(number):
        try:
            if number % 2:
                raise KeyError(number)
            await Event().wait()
        except KeyError:
            try:
                await Event().wait()
            except Cancelled as error:
                seen.append(repr(error.__context__))
                raise
        except Cancelled as error:
            seen.append(repr(error.__context__))
            raise

    cancel_crowd(work, 4)
    assert sorted(seen) == ["KeyError(1)", "KeyError(3)", "None", "None"]
