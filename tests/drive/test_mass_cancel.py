"""A crowd that is asked to stop: what each of its tasks sees of its own end, however little of it is really made.

The native kernel makes neither a record nor a timer for a task that ends as soon as it is told to, and throws one error
into many, where nobody can tell. Both kernels must pass: these are the places where somebody could.
"""

from __future__ import annotations

import traceback

from support.law import CancelPhase, TimerKind

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


def test_a_task_that_changes_its_error_changes_no_other_error():
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


def test_reading_a_cleanup_timer_arms_it_first():
    runtime = Runtime(clock="virtual")
    kernel = runtime.kernel
    seen = []

    async def work(number):
        try:
            await Event().wait()
        finally:
            timer = kernel.current.cleanup_timer if number % 2 else kernel.timers.next()
            seen.append(
                (timer.armed, timer.task is kernel.current, timer.deadline_ns - kernel.now_ns, len(kernel.timers))
            )

    cancel_crowd(work, runtime=runtime)
    assert seen == [(True, True, kernel.cleanup_ns, 1)] * 6
    assert len(kernel.timers) == 0


def test_a_cleanup_timer_that_is_never_read_still_takes_a_number():
    runtime = Runtime(clock="virtual")
    kernel = runtime.kernel

    async def work(number):
        await Event().wait()

    def next_id():
        timer = kernel.timers.arm(kernel.now_ns + 5, TimerKind.WAKE, kernel.current)
        kernel.timers.disarm(timer)
        return timer.id

    assert cancel_crowd(work, 6, runtime, next_id) == 1 + 6 + 1  # main slept, and six were told to stop


def test_a_task_without_extra_fields_shows_how_it_is_cancelled():
    runtime = Runtime(clock="virtual")
    kernel = runtime.kernel
    asked, told = [], []

    def say(task):
        reason = task.reason.kind if task.reason else None
        return (task.phase, task.requested, task.draining, task.cancel_pending, task.cleanup_left, reason)

    async def work():
        try:
            await Event().wait()
        finally:
            told.append(say(kernel.current))

    async def main():
        async with nursery() as crowd:
            for _ in range(3):
                crowd.spawn(work, name="one")
            await bursar.sleep(1)
            crowd.cancel()
            asked.extend(say(task) for task in kernel.tasks.values() if task.name == "one")

    runtime.run(main)
    assert asked == [(CancelPhase.REQUESTED, 1, 0, True, -1, "parent")] * 3
    assert told == [(CancelPhase.DRAINING, 0, 1, False, kernel.cleanup_ops, "parent")] * 3


def test_a_task_that_waits_in_its_cleanup_is_cut_at_the_deadline_of_the_delivery():
    runtime = Runtime(clock="virtual")
    kernel = runtime.kernel
    ended = []

    async def work(number):
        try:
            await Event().wait()
        finally:
            try:
                if number == 1:
                    await bursar.sleep(1)
                    async with nursery() as inner:  # which makes a record of it
                        inner.spawn(bursar.sleep, 0.1)
                await Event().wait()
            finally:
                ended.append((number, kernel.now_ns))

    cancel_crowd(work, 3, runtime)
    late = 1_000_000_000 + kernel.cleanup_ns
    assert sorted(ended) == [(0, late), (1, late), (2, late)]


def test_an_observer_attached_during_a_cleanup_gets_its_end():
    runtime = Runtime(clock="virtual")
    kernel = runtime.kernel
    heard = []

    async def work(number):
        try:
            await Event().wait()
        finally:
            kernel.observe(lambda what, task, detail: heard.append(what))

    cancel_crowd(work, 1, runtime)
    assert heard[:2] == ["cleanup_ended", "timer_disarmed"]
    assert "timer_armed" not in heard
