"""Bursar, with the face of `support.toy_scheduler`: the same moves, the same words for where a task stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import bursar
from bursar import Aging, Authority, Soft, State
from bursar.workflow import Workflow
from support.manual_gate import Boom, Coroutine, ManualGate
from support.naive import Steps
from support.toy_scheduler import INTERVAL, Refused

EVENTS = {"submitted": "submitted", "admitted": "started", "over": "over"}


class BursarAdapter:
    """One gate, by hand. Tasks are functions on threads; those that call back are coroutines."""

    def __init__(self, cpu: int = 2, ram: int = 100) -> None:
        self.hands = ManualGate(Authority(order=Aging(INTERVAL, 1), resources={"cpu": cpu, "ram": Soft(ram)}))
        self.tasks: dict[str, bursar.Task] = {}  # the last of each name
        self.names: dict[int, str] = {}
        self.on_cancel: dict[str, Callable[[], object]] = {}
        self.closed = False

    # ---- moves

    def submit(
        self, name: str, after: Sequence[str] = (), priority: int = 0, cpu: int = 1, ram: int = 0, fate: str = ""
    ) -> None:
        if any(other not in self.tasks for other in after):
            follows: list = [self.tasks.get(other) for other in after]  # a name that is none is no task
        else:
            follows = [self.tasks[other] for other in after]
        plain = name not in self.on_cancel
        try:
            if self.closed:
                self.hands.nursery.spawn(print)  # there is no task left that could take orders
            task = self.hands.spawn(name, plain, fate, after=follows, priority=priority, needs={"cpu": cpu, "ram": ram})
        except bursar.BursarError as refused:
            raise Refused(str(refused)) from refused
        self.tasks[name], self.names[task.id] = task, name
        if not plain:
            body = self.hands.bodies[task]
            assert isinstance(body, Coroutine)
            body.on_cancel = self.on_cancel[name]

    def tell(self, name: str, word: str) -> None:
        self.hands.tell(self.tasks[name], word)

    def pause(self, name: str) -> list[bool]:
        return self.hands.pause_and_see(self.tasks[name])

    def resume(self, name: str) -> None:
        self.hands.do(self.tasks[name].resume)

    def cancel(self, name: str) -> None:
        if self.hands.kernel.current is not None:
            self.tasks[name].cancel()  # from a task, which is called back
        else:
            self.hands.do(self.tasks[name].cancel)

    def advance(self, seconds: float) -> None:
        self.hands.advance(seconds)

    def close(self) -> None:
        self.closed = True
        self.hands.do(self.hands.nursery.cancel)

    def leave(self) -> bool:
        self.hands.finish()
        return self.hands.failed is not None

    # ---- looking

    def state(self, name: str) -> str:
        task = self.tasks[name]
        if task.outcome is not None:
            return task.outcome.kind.name.lower()
        if task.state is State.PAUSED:
            return "stands"
        told = task.explain()
        if task.state is State.PENDING:
            assert told.admission is not None
            return told.admission.state
        return "stops" if "was asked to stop" in told.reason else "runs"

    def calls(self, name: str) -> int:
        return len(self.hands.bodies[self.tasks[name]].calls)

    def passed(self, name: str) -> int:
        call = self.hands.call_of(self.tasks[name])
        return 0 if call is None else call.done

    def id(self, name: str) -> int:
        return self.tasks[name].id

    def known(self) -> list[str]:
        return [self.names[id] for id in self.hands.kernel.tasks if id in self.names]

    def idle(self) -> bool:
        return not self.known()

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(self.names[id], EVENTS[what]) for what, id in self.hands.judge.log]


class Simple(BursarAdapter):
    """Functions alternate with the loop: they are told beforehand what they do."""

    def __init__(self, **limits) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BURSAR_SCHEDULER", "simple")
            super().__init__(**limits)
        assert self.hands.runtime.settings.scheduler == "simple"
        self.on_cancel["holder"] = int  # a coroutine, which can wait


class WorkflowAdapter:
    """A workflow of coroutines, which give way to each other until all that are let in have begun."""

    def __init__(self, cpu: int = 8, ram: int = 10) -> None:
        self.limits = {"cpu": cpu, "ram": ram}
        self.completed: list[bool] = []
        self.states: dict[str, str] = {}
        self.taken = self.peak = 0

    def perform(self, steps: Steps, fast: bool = False) -> None:
        flow = Workflow("flow", resources=self.limits)
        for name, (after, ram, fate) in steps.items():
            flow.task(name, self._work, args=[ram, fate, fast], after=after, needs={"ram": ram})
        report = flow.run()
        self.completed.append(report.ok)
        self.states = {name: task.state for name, task in report.tasks.items()}

    async def _work(self, ram: int, fate: str, fast: bool) -> None:
        self.taken += ram
        self.peak = max(self.peak, self.taken)
        for _ in range(0 if fast else 20):
            await bursar.checkpoint()
        self.taken -= ram
        if fate == "fail":
            raise Boom

    def state(self, name: str) -> str:
        return self.states[name]
