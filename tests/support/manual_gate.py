"""Playing one gate by hand, one move at a time, with coroutines and with plain functions on real threads.

Whoever is let in does nothing until it is told to: end, fail, or come to a checkpoint. So every state can be brought
about, and nothing here waits for time to pass: the clock shows what the hands set it to, and `settle` returns when
every task rests, which each function says of itself. What has not come within `WAIT_S` has failed.

`GateOracle` and the whole law look on after every poll. The functions run on the pool of threads; those that alternate
with the loop could not wait for words from it.
"""

from __future__ import annotations

import os
import queue
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import bursar
from bursar import Authority, Cancelled, Checkpoint, State
from support.drive import checked, over
from support.gate_oracle import GateOracle
from support.time_limits import WAIT_S


class Boom(Exception):
    """What a task fails with."""


class ManualHost:
    """A host whose loop runs when it is asked to, and whose clock is set."""

    name = "by hand"
    virtual = False

    def __init__(self) -> None:
        self.pump = None
        self.time_ns = 0
        self._calls = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def open(self, pump) -> None:
        self.pump = pump

    def close(self) -> None:
        self._calls = False

    def now_ns(self) -> int:
        return self.time_ns

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def microtask(self) -> None:
        self._calls = True

    handoff = microtask

    def alarm(self, deadline_ns: int | None) -> None:
        """Time passes by hand."""

    def wake(self) -> None:
        self._wakes.put(None)

    def run(self) -> None:
        """Until nobody has asked for anything more."""
        while self._calls or not self._wakes.empty():
            while not self._wakes.empty():
                self._wakes.get()
            self._calls = False
            self.pump.drain()

    def await_wake(self) -> bool:
        """Until a thread has something to say. False: none had."""
        try:
            self._wakes.get(timeout=WAIT_S)
        except queue.Empty:
            return False
        self._calls = True
        return True


class Call:
    """One task that was let in and does what it is told. Its thread writes `inside`, `done` and `heard`."""

    def __init__(self) -> None:
        self.inside = True
        self.told = 0  # words
        self.done = 0  # of these
        self.heard = 0  # times that a checkpoint asked it to stop


class Coroutine:
    """A coroutine that waits for words."""

    plain = False

    def __init__(self, hands: ManualGate) -> None:
        self._hands = hands
        self.calls: list[Call] = []
        self.on_cancel: Callable[[], object] | None = None
        self._word = bursar.Event()
        self._fails = False

    async def work(self) -> str:
        call = Call()
        self.calls.append(call)
        try:
            self._word = bursar.Event()
            await self._word.wait()
        except Cancelled:
            if self.on_cancel is not None:
                self.on_cancel()
            raise
        finally:
            call.inside = False
        if self._fails:
            raise Boom
        return "done"

    def tell(self, call: Call, word: str) -> None:
        self._fails = word == "fail"
        self._hands.runtime.pump.post("hands", self._word.set)


class Puppet:
    """A plain function that waits for words, in its thread."""

    plain = True

    def __init__(self, hands: ManualGate, fate: str = "") -> None:
        self._hands = hands
        self.calls: list[Call] = []
        self._fate = fate
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()

    def work(self, checkpoint: Checkpoint) -> str:
        call = Call()
        if self._fate:
            self.tell(call, self._fate)
        self.calls.append(call)
        try:
            return self._obey(call, checkpoint)
        finally:
            call.inside = False
            self._hands.host.wake()

    def _obey(self, call: Call, checkpoint: Checkpoint) -> str:
        while True:
            self._hands.host.wake()
            word = self._words.get(timeout=WAIT_S)
            if word == "end":
                return "done"
            if word == "fail":
                raise Boom
            try:
                checkpoint(progress=0.5)
            except Cancelled:
                call.heard += 1
                if word != "ignore":
                    raise
            else:
                assert not call.heard, "CHECKPOINT-1: it was asked to stop, and a later checkpoint let it go on"
            call.done += 1

    def tell(self, call: Call, word: str) -> None:
        call.told += 1
        self._words.put(word)


class ManualGate:
    """One nursery with a gate. `everywhere`: the gate is that of the whole run."""

    def __init__(self, authority: Authority, everywhere: bool = False, **keywords) -> None:
        self.host = ManualHost()
        admission = authority if everywhere else None
        self.runtime = checked(bursar.Runtime(host=self.host, admission=admission, **keywords))
        self.kernel = self.runtime.kernel
        self.bodies: dict[bursar.Task, Coroutine | Puppet] = {}
        self.stopping = False
        self.failed: BaseException | None = None  # what the nursery raised
        self._orders: deque[Callable[[], object]] = deque()
        self._bell = bursar.Event()
        self.runtime.start(self._main, None if everywhere else authority)
        self.judge = GateOracle(self.runtime)
        self.judge.look_after_every_poll(self.runtime)
        self.runtime.pump.sources += 1  # these hands: nobody waits for nothing
        self.settle()

    async def _main(self, authority: Authority | None) -> None:
        async with bursar.nursery() as self._askers:
            try:
                async with bursar.nursery(admission=authority, cancel_on_failure=False) as self.nursery:
                    await self._take_orders()
            except BaseExceptionGroup as failed:
                self.failed = failed

    async def _take_orders(self) -> None:
        while not self.stopping:
            while self._orders:
                self._orders.popleft()()
            self._bell = bursar.Event()
            await self._bell.wait()

    # ---- moves

    def spawn(self, name: str | None = None, plain: bool = False, fate: str = "", **keywords) -> bursar.Task:
        """Or raises what the spawn was refused with. `fate`: the word that a plain function is told beforehand."""
        body = Puppet(self, fate) if plain else Coroutine(self)
        found: list = []

        def ask() -> None:
            try:
                found.append(self.nursery.spawn(body.work, name=name, **keywords))
            except bursar.BursarError as refused:
                found.append(refused)

        self.do(ask)
        if isinstance(found[0], bursar.BursarError):
            raise found[0]
        self.bodies[found[0]] = body
        self.settle()
        return found[0]

    def do(self, call: Callable[[], object]) -> None:
        """By the main task, as a program would."""
        self._orders.append(call)
        self.runtime.pump.post("hands", self._bell.set)
        self.settle()

    def pause_and_see(self, task: bursar.Task, timeout: float | None = None) -> list:
        """Have somebody pause it and wait until it stands. The answer will be in the list: True, False, or an error."""
        answer: list = []

        async def see() -> None:
            try:
                stands = await task.pause(timeout)
            except bursar.PauseTimeout as late:
                answer.append(late)
            else:
                assert stands == (task.state is State.PAUSED), f"{task}: {stands}"
                answer.append(stands)

        self.do(lambda: self._askers.spawn(see))
        return answer

    def tell(self, task: bursar.Task, word: str) -> None:
        """`end`, `fail`; and for a plain function `checkpoint`, or `ignore`: one that hears, and goes on."""
        call = self.call_of(task)
        assert call is not None, f"{task} was not called"
        heard, asked = call.heard, self._asked(task)
        self.bodies[task].tell(call, word)
        self.settle()
        if word in ("checkpoint", "ignore"):
            assert (call.heard > heard) == (asked == "stop"), "CHECKPOINT-1: every checkpoint heeds a request to stop"
            assert (task.state is State.PAUSED) == (asked == "pause"), "CHECKPOINT-2: who was asked to pause stands"

    def _asked(self, task: bursar.Task) -> str:
        told = task.explain()
        if "was asked to stop" in told.reason:
            return "stop"
        assert told.admission is not None, "it asked at a gate"
        return "pause" if any(blocker.what == "pause" for blocker in told.admission.blockers) else ""

    def advance(self, seconds: float) -> None:
        self.host.time_ns += int(seconds * 1e9)
        self.runtime.pump.nudge()
        self.settle()

    def settle(self) -> None:
        """Everybody rests: waits for permission, or for a word, or stands, or is over."""
        self.host.run()
        while self.runtime.pump.error is None and (busy := self._busy()):
            assert self.host.await_wake(), f"they should rest, and do not: {busy}"
            self.host.run()
        if self.runtime.pump.error is not None:
            raise self.runtime.pump.error

    def _busy(self) -> list[str]:
        return [str(task) for task in self.live() if self.bodies[task].plain and not self._rests(task)]

    def _rests(self, task: bursar.Task) -> bool:
        call = self.call_of(task)
        if task.state is State.PENDING or (task.state is State.PAUSED and call is None):
            return True
        if task.state is State.PAUSED:
            return "was asked to stop" not in task.explain().reason  # else it is about to leave
        return call is not None and call.inside and call.done == call.told

    # ---- looking

    def tasks(self) -> list[bursar.Task]:
        """All that were spawned, with the attempts that were made since."""
        for task in list(self.bodies):
            if (again := task.retried_by) is not None:
                self.bodies.setdefault(again, self.bodies[task])
        return list(self.bodies)

    def live(self) -> list[bursar.Task]:
        return [task for task in self.tasks() if task.outcome is None]

    def call_of(self, task: bursar.Task) -> Call | None:
        """An attempt is made only after the one before was called, and failed: so they have the same numbers."""
        calls = self.bodies[task].calls
        return calls[task.attempt - 1] if len(calls) >= task.attempt else None

    def waiting_for_words(self) -> list[bursar.Task]:
        return [task for task in self.live() if task.state is not State.PAUSED and self.call_of(task) is not None]

    # ---- the end

    def finish(self) -> None:
        """Everybody goes on and ends; then nothing is left."""
        for _ in range(200):
            if not self.live():
                break
            self.do(lambda: [task.resume() for task in self.live()])
            while told := self.waiting_for_words():
                self.tell(told[0], "end")
            self.advance(1.0)
        assert not self.live(), f"they wait, and for nothing: {[str(task.explain()) for task in self.live()]}"
        self.stopping = True
        self.runtime.pump.sources -= 1
        self.do(lambda: None)
        over(self.runtime, dropped=sum(self.kernel.gate.totals.dropped.values()))
        self.judge.check()

    def abandon(self) -> None:
        """Let every thread go, whatever state a failure left this in."""
        for body in self.bodies.values():
            for call in body.calls:
                if body.plain and call.inside:
                    body.tell(call, "end")
        with suppress(BaseException):
            self.runtime.pump.stop(RuntimeError("abandoned"))
