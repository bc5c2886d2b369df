"""Objects that misbehave when the runtime only wants to name, print or forget them.

Errors whose text raises or is enormous, names that are not quite strings, results that cannot be printed, things with a
`__del__` that reaches back into the runtime, things that lie about their class. Whatever user code does in such a
method is the affair of its own task: the run goes on, and an honest task next to it finishes.
"""

from __future__ import annotations

import gc
import types
from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over

import bursar
from bursar import Budget, Cancelled, ForeignAwait, OutcomeKind, Runtime


class Hostile(Exception):
    """What the hostile methods raise."""


def beside(attack, *args, **spawn) -> tuple[Runtime, Watch]:
    """Run an attack as a task, with an honest task next to it and a nursery around both that hears of every failure."""
    rt = checked(Runtime(clock="virtual", cleanup=bursar.Cleanup(ops=100, seconds=1.0)))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            work = n.spawn(honest, name="honest")
            try:
                async with bursar.nursery() as jail:
                    jail.spawn(attack, *args, **spawn)
                    jail.spawn(bystander)
                    await bursar.sleep(1)
                    jail.cancel()
            except BaseExceptionGroup:
                pass
        return work.result

    assert rt.run(main) == "honest work done"
    over(rt)
    assert watch.took("honest") <= bound(HONEST_POLLS, 4)
    assert str(rt.snapshot())
    return rt, watch


async def bystander() -> None:
    await bursar.sleep(1000)


def raising(*_):
    raise Hostile("from inside a method that only prints")


class BadText(Exception):
    __str__ = __repr__ = raising


class BadNotes(Exception):
    __notes__ = "not a list"


class BadAddNote(Exception):
    add_note = raising


class BadBoth(BaseException):
    __str__ = __repr__ = add_note = raising


class HalfMadeCancelled(Cancelled):
    def __init__(self):
        pass  # no reason


@pytest.mark.parametrize("error", [BadText, BadNotes, BadAddNote, BadBoth, HalfMadeCancelled])
def test_an_error_that_cannot_be_printed_is_one_failure_like_any_other(error):
    async def evil():
        await bursar.checkpoint()
        raise error

    rt, _ = beside(evil)
    assert rt.kernel.spawned == 4


def test_an_error_with_an_enormous_text_is_not_copied_into_every_reason():
    class Huge(Exception):
        def __str__(self):
            return "x" * 10_000_000

    async def evil():
        raise Huge

    rt = checked(Runtime(clock="virtual"))
    reasons = []

    async def victim():
        try:
            await bursar.sleep(1000)
        except Cancelled as cancelled:
            reasons.append(len(cancelled.reason.detail))
            raise

    async def main():
        try:
            async with bursar.nursery() as n:
                for _ in range(5):
                    n.spawn(victim)
                await bursar.checkpoint()
                n.spawn(evil)
        except* Huge:
            pass

    rt.run(main)
    over(rt)
    assert max(reasons) <= 100_000, f"a reason of {max(reasons):,} characters"


class BadName(str):
    __slots__ = ()
    __str__ = __repr__ = __format__ = __hash__ = __eq__ = raising


async def runs_dry() -> None:
    while True:
        await bursar.charge(ops=3)


async def fails() -> None:
    raise ValueError


async def is_denied() -> None:
    await bursar.recharge(Budget(ops=1))


async def swallows() -> None:
    with suppress(Cancelled):
        await bursar.sleep(1000)


async def leaks() -> None:
    send, receive = bursar.channel(1)
    await send.reserve()
    assert receive is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("evil", [runs_dry, fails, is_denied, swallows, leaks])
def test_a_name_that_cannot_be_printed_harms_nobody(evil):
    """It may be refused at the spawn, or taken as a plain string; it must not blow up in the scheduler later."""
    rt = checked(Runtime(clock="virtual"))

    async def main():
        async with bursar.nursery() as n:
            work = n.spawn(honest)
            with suppress(BaseExceptionGroup, TypeError, Hostile):
                async with bursar.nursery(name="jail") as jail:
                    jail.spawn(evil, name=BadName("evil"), budget=Budget(ops=20))
                    await bursar.sleep(1)
                    str(rt.snapshot())
                    jail.cancel()
        return work.result

    assert rt.run(main) == "honest work done"
    over(rt)


def test_a_name_that_is_very_long_or_no_string_is_taken_or_refused_at_once():
    rt = checked(Runtime(clock="virtual"))

    async def main():
        async with bursar.nursery() as n:
            for name in ("", "x" * 1_000_000, "\ud800\n\x00", 7, None, b"x"):
                with suppress(TypeError, ValueError):
                    n.spawn(honest, 2, name=name)

    rt.run(main)
    over(rt)
    assert set(rt.kernel.done) == {OutcomeKind.OK}


class BadValue:
    __repr__ = __str__ = raising


def test_a_result_that_cannot_be_printed_may_be_returned_after_a_cancel():
    async def evil():
        with suppress(Cancelled):
            await bursar.sleep(1000)
        return BadValue()

    rt, _ = beside(evil)
    assert "cancel_swallowed" in rt.kernel.counters


class BadAwaitable(BadValue):
    def __await__(self):
        yield self


class LyingAwaitable:
    """Claims to be a request of Bursar's and is none."""

    def __await__(self):
        yield self

    __class__ = bursar.checkpoint().__class__


class RaisingClass:
    def __await__(self):
        yield self

    @property
    def __class__(self):
        raise Hostile("no class")


@pytest.mark.parametrize("thing", [BadAwaitable, LyingAwaitable, RaisingClass])
def test_an_awaitable_that_cannot_be_named_is_thrown_back(thing):
    async def evil():
        try:
            await thing()
        except (ForeignAwait, AttributeError, TypeError, Hostile):
            await bursar.checkpoint()
            return "thrown back"

    beside(evil)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_finalizer_that_reaches_back_finds_a_runtime_in_order():
    """`__del__` runs wherever the last reference dies, also in the middle of the scheduler's own work."""
    calls = []

    class Grenade:
        def __init__(self, n, event, task):
            self.n, self.event, self.task = n, event, task

        def __del__(self):
            calls.append("bang")
            self.event.set()
            if self.task is not None:
                self.task.cancel("from a finalizer")
            with suppress(bursar.BursarError):  # outside any task it is refused
                self.n.spawn(nothing)

    async def nothing():
        pass

    async def holder(box):
        await bursar.sleep(box.pop().event is None)
        await bursar.checkpoint()

    async def returns(box):
        return box.pop()

    async def dies(box):
        grenade = box.pop()
        try:
            await bursar.sleep(1000)
        finally:
            del grenade

    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        event = bursar.Event()
        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            other = n.spawn(bystander)
            tasks = [n.spawn(fn, [Grenade(n, event, other)]) for fn in (holder, returns, dies)]
            send, receive = bursar.channel(3)
            await send.send(Grenade(n, event, None))
            await send.send(Grenade(n, event, other))
            await bursar.sleep(1)
            receive.close()
            tasks.clear()
            gc.collect()
            n.cancel()

    rt.run(main)
    over(rt)
    assert len(calls) >= 4  # the fifth is a result that the watch still holds
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


class Stops:
    """Asks a task to stop when it goes."""

    def __init__(self, task):
        self.task = task

    def __del__(self):
        self.task.cancel("from a finalizer")


@types.coroutine
def by_hand(made):
    """Yield a request that nobody holds but the kernel."""
    return (yield made())


def test_a_finalizer_of_what_was_not_sent_in_time_asks_the_sender_to_stop():
    async def sender():
        me = await bursar.current_task()
        send, receive = bursar.channel(0)
        async with bursar.timeout(1):
            await by_hand(lambda: send.send(Stops(me)))
        receive.close()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(sender)
        return str(task.outcome)

    assert Runtime(clock="virtual").run(main) == "cancelled: user: from a finalizer"


def test_a_finalizer_of_what_a_block_ended_in_asks_its_owner_to_stop():
    """The kernel alone holds the block, which alone holds the error, which alone holds the bomb."""

    def cancelled(task):
        bomb = Stops(task)
        try:
            raise Cancelled(f"this holds {bomb}")
        except Cancelled as error:
            return error

    def left(blocks, task):
        return blocks.pop().__aexit__(Cancelled, cancelled(task), None).__await__().send(None)

    async def owner():
        me = await bursar.current_task()
        blocks = [bursar.nursery()]
        n = await blocks[0].__aenter__()
        n.spawn(bursar.sleep, 1)
        await by_hand(lambda: left(blocks, me))
        await bursar.checkpoint()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(owner)
        return task.outcome.kind

    assert Runtime(clock="virtual").run(main) is OutcomeKind.CANCELLED


def test_amounts_at_the_edge_of_what_can_be_counted_do_not_break_the_books():
    """Spend the largest amount twice: the sum does not fit a budget, but tasks, snapshots and purses still print."""
    from support.law import UNITS_MAX

    rt = checked(Runtime(clock="virtual"))

    async def evil():
        me = await bursar.current_task()
        for _ in range(3):
            await bursar.charge(ops=UNITS_MAX)
        return me.spent

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(evil)
            await task.wait()
            assert str(rt.snapshot())
            assert str(task.explain())

    rt.run(main)
    over(rt)


def test_a_recharge_at_the_edge_of_what_can_be_counted_is_refused_or_capped():
    from support.law import UNITS_MAX

    rt = checked(
        Runtime(clock="virtual", profile="cluster", capabilities=[bursar.CapSpawn(), bursar.CapBudget(Budget())])
    )

    async def main():
        cap = (await bursar.capabilities())[bursar.CapBudget]

        async def evil():
            me = await bursar.current_task()
            for _ in range(3):
                with suppress(bursar.BursarError, ValueError):
                    await bursar.recharge(Budget(ops=UNITS_MAX))
            return me.budget

        async with bursar.nursery() as n:
            task = n.spawn(evil, budget=Budget(ops=1000), capabilities=[cap])
        return task.result

    assert rt.run(main).ops <= UNITS_MAX
    over(rt)
