"""Tools that look over the shoulder of a program (tracers, debuggers, profilers) see the lines of its tasks run."""

import bdb
import sys
import trace

import pytest

import bursar
from bursar import OutcomeKind, nursery, sleep


async def worker(rounds):
    done = 0
    for _ in range(rounds):
        await bursar.checkpoint()
        done += 1
    await sleep(1)
    return done


async def stopped():
    try:
        await sleep(1000)
    finally:
        await bursar.checkpoint()


async def main():
    async with nursery() as n:
        first, second, third = n.spawn(worker, 2), n.spawn(worker, 3), n.spawn(stopped)
        await first
        third.cancel()
    return first.result, second.result, third.outcome.kind


ENDED = (2, 3, OutcomeKind.CANCELLED)
WORKER, STOPPED = worker.__code__.co_firstlineno, stopped.__code__.co_firstlineno


@pytest.fixture
def watched():
    """What watches the tests themselves is put back afterwards."""
    before = sys.gettrace(), sys.getprofile()
    yield lambda: bursar.run(main, clock="virtual")
    sys.settrace(before[0])
    sys.setprofile(before[1])


def test_a_tracer_counts_every_line_as_often_as_it_runs(watched):
    tracer = trace.Trace(count=1, trace=0)
    assert tracer.runfunc(watched) == ENDED
    counts = tracer.results().counts
    lines = {line: n for (file, line), n in counts.items() if file == __file__}
    assert [lines.get(WORKER + offset) for offset in range(1, 7)] == [2, 7, 5, 5, 2, 2]
    assert {STOPPED + 2, STOPPED + 4} <= lines.keys()  # where it waited, and where it cleaned up


def test_a_debugger_stops_in_a_task_and_reads_its_variables(watched):
    seen: list[tuple[str, int]] = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            if self.break_here(frame):
                seen.append((frame.f_code.co_name, frame.f_locals["done"]))
            self.set_continue()

    debugger = Debugger()
    assert debugger.set_break(__file__, WORKER + 4) is None
    assert debugger.runcall(watched) == ENDED
    assert sorted(seen) == [("worker", n) for n in (0, 0, 1, 1, 2)]


def test_a_profiler_sees_a_return_for_every_call(watched):
    depth, entered = {}, {}

    def profile(frame, event, argument):
        name = frame.f_code.co_name
        if event in ("call", "return"):
            depth[name] = depth.get(name, 0) + (1 if event == "call" else -1)
            entered[name] = entered.get(name, 0) + (event == "call")

    sys.setprofile(profile)
    assert watched() == ENDED
    sys.setprofile(None)
    assert {name: depth[name] for name in ("main", "worker", "stopped")} == dict.fromkeys(
        ("main", "worker", "stopped"), 0
    )
    assert (entered["worker"], entered["stopped"]) == (9, 3)
