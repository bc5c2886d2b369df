"""The frames of Bursar are hidden in the tracebacks of a program's errors, alike on both kernels."""

import asyncio

import pytest
from tests.support.requests import Request

import bursar
from bursar import Authority, Budget, Checkpoint, Outcome, OutcomeKind, Retry
from bursar.asyncio import run as run_in_asyncio
from bursar.errors import IllegalTransition


def names(error):
    """The functions in the traceback of an error. A function of Bursar has its module before its name."""
    found, entry = [], error.__traceback__
    while entry is not None:
        frame = entry.tb_frame
        module = "" if frame.f_globals["__name__"] == __name__ else f"{frame.f_globals['__name__']}."
        found.append(module + frame.f_code.co_name)
        entry = entry.tb_next
    return " ".join(found)


def shown(error):
    """The tracebacks of an error, of its parts if it is a group, and of its cause and its context."""
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [f"{type(error).__name__}: {names(error)}"]
    for other in (*parts, *([behind] if behind is not None else ())):
        lines += [f"  {line}" for line in shown(other)]
    return lines


def bad(*_):
    raise ValueError("no")


async def fails(*_):
    bad()


async def sleeps():
    await bursar.sleep(1)
    bad()


async def one():
    return 1


def checks(checkpoint: Checkpoint):
    checkpoint()
    bad()


async def spawns(*what, **how):
    async with bursar.nursery(**how) as n:
        for fn in what:
            n.spawn(fn)


async def nests():
    await spawns(sleeps)


async def body_fails():
    async with bursar.nursery():
        await fails()


async def passes_values(fn):
    async with bursar.nursery() as n:
        n.spawn(fn, n.spawn(one))


async def retries():
    async with bursar.nursery() as n:
        task = n.spawn(fails, retry=Retry(times=1))
    await task


async def awaits(fn):
    async with bursar.nursery(cancel_on_failure=False) as n:
        await n.spawn(fn)


async def reads(fn):
    async with bursar.nursery(cancel_on_failure=False) as n:
        task = n.spawn(fn)
        await task.wait()
        print(task.result)


async def reads_early():
    async with bursar.nursery() as n:
        print(n.spawn(one).result)


async def panics():
    raise SystemExit(3)


async def has_cause():
    try:
        bad()
    except ValueError as error:
        raise KeyError from error


async def has_context():
    try:
        bad()
    finally:
        raise KeyError


async def cleans_up_badly():
    async def child():
        try:
            await bursar.sleep(1)
        finally:
            bad()

    async with bursar.nursery() as n:
        n.spawn(child)
        await bursar.checkpoint()
        n.cancel()


async def iterates():
    async def items():
        yield 1
        bad()

    async for _ in items():
        pass


async def runs_another():
    bursar.run(fails)


async def waits_for_ever():
    await bursar.Event().wait()


async def is_cancelled():
    (await bursar.current_task()).cancel("enough")
    await bursar.checkpoint()


async def spends():
    while True:
        await bursar.checkpoint()


async def supervises():
    async with bursar.supervisor() as s:
        s.start(fails)


async def actor_fails():
    async def member(mailbox):
        await mailbox.receive()
        bad()

    async with bursar.nursery() as n:
        await bursar.actor(n, member).send(1)


async def actor_refuses():
    async def member(mailbox):
        call = await mailbox.receive()
        try:
            bad()
        except ValueError as error:
            call.fail(error)

    async with bursar.nursery() as n:
        await bursar.actor(n, member).ask(1)


async def portal_fails():
    def calls(portal):
        portal.spawn(fails).result()

    async with bursar.nursery(cancel_on_failure=False) as n:
        with bursar.portal(n) as portal:
            await n.spawn(calls, portal).wait()


def run(*call, **settings):
    bursar.run(*call, **settings)


@pytest.mark.parametrize(
    ("call", "settings", "lines"),
    [
        ((fails,), {}, ["ValueError: run fails bad"]),
        ((sleeps,), {}, ["ValueError: run sleeps bad"]),
        ((spawns, fails, one), {}, ["ExceptionGroup: run spawns", "  ValueError: fails bad"]),
        ((spawns, sleeps), {"seed": 3}, ["ExceptionGroup: run spawns", "  ValueError: sleeps bad"]),
        ((spawns, fails), {"admission": Authority()}, ["ExceptionGroup: run spawns", "  ValueError: fails bad"]),
        ((spawns, fails), {"workers": 3}, ["ExceptionGroup: run spawns", "  ValueError: fails bad"]),
        (
            (spawns, nests),
            {},
            ["ExceptionGroup: run spawns", "  ExceptionGroup: nests spawns", "    ValueError: sleeps bad"],
        ),
        ((body_fails,), {}, ["ExceptionGroup: run body_fails", "  ValueError: body_fails fails bad"]),
        ((passes_values, fails), {}, ["ExceptionGroup: run passes_values", "  ValueError: fails bad"]),
        ((passes_values, bad), {}, ["ExceptionGroup: run passes_values", "  ValueError: bad"]),
        ((spawns, bad), {}, ["ExceptionGroup: run spawns", "  ValueError: bad"]),
        ((spawns, checks), {}, ["ExceptionGroup: run spawns", "  ValueError: checks bad"]),
        ((retries,), {}, ["ExceptionGroup: run retries", "  ValueError: fails bad"]),
        ((awaits, fails), {}, ["ExceptionGroup: run awaits", "  ValueError: awaits fails bad"]),
        ((awaits, bad), {}, ["ExceptionGroup: run awaits", "  ValueError: awaits bad"]),
        ((awaits, is_cancelled), {}, ["ExceptionGroup: run awaits", "  TaskCancelled: awaits"]),
        (
            (awaits, panics),
            {},
            [
                "BaseExceptionGroup: run awaits",
                "  SystemExit: panics",
                "  TaskPanicked: awaits",
                "    SystemExit: panics",
            ],
        ),
        ((reads, sleeps), {}, ["ExceptionGroup: run reads", "  ValueError: reads sleeps bad"]),
        ((reads_early,), {}, ["ExceptionGroup: run reads_early", "  ResultNotReady: reads_early"]),
        ((panics,), {}, ["SystemExit: run panics"]),
        ((has_cause,), {}, ["KeyError: run has_cause", "  ValueError: has_cause bad"]),
        ((has_context,), {}, ["KeyError: run has_context", "  ValueError: has_context bad"]),
        ((iterates,), {}, ["ValueError: run iterates items bad"]),
        ((runs_another,), {}, ["ValueError: run runs_another fails bad"]),
        ((waits_for_ever,), {}, ["Deadlock: run"]),
        ((is_cancelled,), {}, ["TaskCancelled: run"]),
        (
            (supervises,),
            {"profile": "cluster"},
            ["ExceptionGroup: run supervises", "  RestartLimitExceeded: ", "    ValueError: fails bad"],
        ),
        ((actor_fails,), {"profile": "cluster"}, ["ExceptionGroup: run actor_fails", "  ValueError: member bad"]),
        (
            (actor_refuses,),
            {"profile": "cluster"},
            ["ExceptionGroup: run actor_refuses", "  ValueError: actor_refuses member bad"],
        ),
    ],
)
def test_only_the_frames_of_the_program_are_shown(call, settings, lines):
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        run(*call, clock="virtual", **settings)
    error = caught.value
    error.__traceback__ = error.__traceback__.tb_next  # this function
    assert shown(error) == lines


def test_the_error_of_a_cleanup_shows_where_the_task_was_cancelled():
    with pytest.raises(ExceptionGroup) as caught:
        bursar.run(cleans_up_badly, clock="virtual")
    (error,) = caught.value.exceptions
    assert names(error) == "child bad"
    assert names(error.__context__).split()[0] == "child"


def test_the_frames_of_a_refusal_come_after_the_frames_of_the_program():
    with pytest.raises(bursar.BudgetExceeded) as caught:
        bursar.run(spends, budget=Budget(ops=10, spawns=1))
    _, program, *rest = names(caught.value).split()
    assert program == "spends"
    assert all(name.startswith("bursar.") for name in rest)


def test_a_future_of_a_portal_shows_the_frames_of_the_task():
    with pytest.raises(ExceptionGroup) as caught:
        bursar.run(portal_fails)
    by_thread = caught.value.exceptions[-1]
    assert names(by_thread).startswith("calls ")
    assert names(by_thread).endswith(" fails bad")
    assert "bursar." not in names(by_thread)


def test_a_guest_of_asyncio_shows_the_frames_of_the_program():
    async def asks():
        await run_in_asyncio(fails)

    with pytest.raises(ValueError, match="no") as caught:
        asyncio.run(asks())
    assert names(caught.value).endswith(" asks fails bad")
    assert "bursar." not in names(caught.value)


def test_raising_an_error_again_does_not_lengthen_its_traceback():
    seen = set()

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            task = n.spawn(fails)
            await task.wait()
            for _ in range(100):
                for get in (awaited, read):
                    try:
                        await get(task)
                    except ValueError as error:
                        seen.add((error is task.outcome.error, names(error)))
            raise KeyError

    async def awaited(task):
        await task

    async def read(task):
        print(task.result)

    with pytest.raises(ExceptionGroup):
        bursar.run(main)
    assert seen == {(True, "main awaited fails bad"), (True, "main read fails bad")}


def test_an_outcome_keeps_the_traceback_of_the_task():
    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            task = n.spawn(fails)
            await task
            raise AssertionError("it failed")

    with pytest.raises(ExceptionGroup) as caught:
        bursar.run(main)
    (error,) = caught.value.exceptions
    assert names(error) == "main fails bad"
    assert Outcome(OutcomeKind.FAILED, error=error).traceback is None
    assert Outcome(OutcomeKind.OK).traceback is None


@pytest.mark.parametrize("kind", [AssertionError, IllegalTransition])
def test_a_bug_of_bursar_keeps_all_its_frames(kind):
    """The planted function counts as one of Bursar, because of the name of its module."""
    planted = {"__name__": "bursar.planted", "kind": kind}
    exec("def perform(self, kernel, task): raise kind('planted')", planted)

    class Broken(Request):
        perform = planted["perform"]

    async def main():
        await Broken()

    with pytest.raises(AssertionError, match="planted") as caught:
        bursar.run(main)
    _, *own = names(caught.value).split()
    assert own[0] == "bursar.runtime.run"
    assert own[-1] == "bursar.planted.perform"
    assert len(own) > 4


def test_a_hostile_error_fails_only_its_task():
    class Hostile(Exception):
        __traceback__ = property(lambda self: 1 / 0, lambda self, value: 1 / 0)

        def with_traceback(self, traceback):
            raise KeyboardInterrupt

    hostile = {"__name__": 5, "Hostile": Hostile}
    exec("async def fails():\n    raise Hostile", hostile)

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            task = n.spawn(hostile["fails"])
            try:
                await task
            except Hostile as error:
                return error is task.outcome.error

    with pytest.raises(ExceptionGroup) as caught:
        bursar.run(main)
    assert type(caught.value.exceptions[0]) is Hostile
