"""Where a second Ctrl-C strikes: the signals are raised by the thread itself, at a place that the test chooses."""

import signal
import types

import pytest
from support.evidence import Trace

import bursar


def strike():
    signal.raise_signal(signal.SIGINT)


def ours(function):
    """The same function, as if it stood in one of Bursar's own modules: what a recorder's frame looks like."""
    return types.FunctionType(
        function.__code__, {**globals(), "__name__": "bursar.tapped"}, closure=function.__closure__
    )


class Told:
    """Stands between the kernel and its recorder, and strikes while a certain event is on its way to the record."""

    def __init__(self, recorder, name):
        self.recorder = recorder
        self.name = name
        self.struck = 0

    @ours
    def __call__(self, name, task, detail):
        if name == self.name and not self.struck:
            self.struck += 1
            strike()
        self.recorder(name, task, detail)


async def patient(done):
    try:
        await bursar.sleep(60)
    finally:
        done.append("cleaning")
        async with bursar.timeout(50):
            await bursar.sleep(40)
        done.append("cleaned")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.trace"


def run_struck(path, main, *args, during=None):
    """Run `main`, recorded; a first Ctrl-C comes from the program itself, a second one while an event is written."""
    runtime = bursar.Runtime(clock="virtual", record=path)
    begin = runtime._begin_evidence

    def begin_and_tap():
        begin()
        runtime.kernel.observe(Told(runtime.kernel.observer, during))

    if during is not None:
        runtime._begin_evidence = begin_and_tap
    with pytest.raises(KeyboardInterrupt):
        runtime.run(main, *args)
    trace = Trace(path)
    names = [event.name for event in trace.events()]  # whole, and its digest is right
    assert trace.ending == {"error": "KeyboardInterrupt"}
    assert not runtime.kernel.tasks or runtime.pump.over
    return names


@pytest.mark.parametrize(
    "event", ["cleanup_begun", "scope_opened", "timer_armed", "task_blocked", "scheduler_step_end"]
)
def test_the_record_of_what_it_interrupts_is_whole(path, event):
    done = []

    async def main():
        strike()
        await patient(done)

    assert event in run_struck(path, main, during=event)
    assert "cleaned" not in done


def test_the_programs_own_code_hears_of_it_at_once(path):
    seen = []

    async def main():
        strike()
        try:
            await bursar.sleep(60)
        finally:
            try:
                strike()
            except KeyboardInterrupt:
                seen.append("here")
                raise

    run_struck(path, main)
    assert seen == ["here"]


def test_it_cannot_be_swallowed(path):
    went_on = []

    async def main():
        strike()
        try:
            await bursar.sleep(60)
        finally:
            try:
                strike()
            except KeyboardInterrupt:
                went_on.append("to the end of the poll")
            await bursar.sleep(1)
            went_on.append("beyond")

    run_struck(path, main)
    assert went_on == ["to the end of the poll"]


def test_a_third_one_waits_for_nothing():
    seen = []

    @ours
    def tap(name, task, detail):
        if name == "timer_armed" and not seen:
            strike()
            seen.append("the second is put off")
            try:
                strike()
            except KeyboardInterrupt:
                seen.append("the third is not")
                raise

    async def main():
        strike()
        await patient([])

    runtime = bursar.Runtime(clock="virtual")
    runtime.kernel.observe(tap)
    with pytest.raises(KeyboardInterrupt):
        runtime.run(main)
    assert seen == ["the second is put off", "the third is not"]
