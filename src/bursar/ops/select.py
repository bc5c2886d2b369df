"""`select`: wait for the first of several operations, fairly.

If several operations are ready, a seeded random stream of the run chooses one, so that none is preferred and the same
seed makes the same choice. Exactly one operation takes effect. If none is ready, the task waits in all their queues at
once; when one answers, the task leaves the other queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bursar.backend import Kernel, Task, Wait
from bursar.law.costs import Component, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.timers import Timer
from bursar.ops.task import Task as TaskHandle
from bursar.request import SUSPENDED, Entry, Operation, Request, loop_module

loop_module(__name__)


@dataclass(frozen=True, slots=True)
class Selected:
    """Which case of a `select` happened, and its value. Unpacks: `index, value = await select(...)`.

    Attributes:
        index: The number of the case; −1 for the default.
        value: What the case returned.
    """

    index: int
    value: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.index, self.value))


class _NoDefault:
    __slots__ = ()


NO_DEFAULT: Final = _NoDefault()


class _Case(Entry):
    """The entry of one case. Its answer names the case."""

    __slots__ = ("index",)

    def __init__(self, task: Task, operation: Operation[Any], index: int) -> None:
        super().__init__(task, operation)
        self.index = index

    def answer(self, kernel: Dispatch, value: Any) -> None:
        super().answer(kernel, Selected(self.index, value))


class _AnyOf(Wait):
    """The wait of a selecting task: all its cases."""

    __slots__ = ("cases",)

    def __init__(self, task: Task, cases: list[_Case]) -> None:
        super().__init__(task)
        self.cases = cases

    @property
    def reason(self) -> str:
        return "waits for the first of: " + "; ".join(case.reason for case in self.cases)

    def withdraw(self, kernel: Dispatch) -> None:
        for case in self.cases:
            case.withdraw(kernel)

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        hit = next(case for case in self.cases if case.token is timer)
        self.withdraw(kernel)
        self.task.inbox = Selected(hit.index, None)
        self.task.effect = True

    def blockers(self) -> Iterable[Task]:
        for case in self.cases:
            yield from case.blockers()


class Select(Request[Selected]):
    """The request behind `select`."""

    __slots__ = ("_cases", "_default")
    timed: ClassVar[bool] = True

    def __init__(self, cases: tuple[Operation[Any], ...], default: Any) -> None:
        self._cases = cases
        self._default = default

    def bill(self) -> Cost:
        """For each component, the highest amount of any case: only one case happens."""
        highest: dict[Component, int] = {}
        for case in self._cases:
            for component, amount in case.bill():
                highest[component] = max(amount, highest.get(component, 0))
        return tuple(sorted(highest.items(), key=lambda row: (isinstance(row[0], str), row[0])))

    def perform(self, kernel: Kernel, task: Task) -> Any:
        ready = [i for i, case in enumerate(self._cases) if case.ready(kernel, task)]
        if ready:
            index = ready[kernel.choices.below(len(ready))] if len(ready) > 1 else ready[0]
            return Selected(index, self._cases[index].take(kernel, task))
        if self._default is not NO_DEFAULT:
            return Selected(-1, self._default)
        entries = [_Case(task, case, i) for i, case in enumerate(self._cases)]
        wait = _AnyOf(task, entries)
        try:
            for entry in entries:
                entry.operation.enlist(kernel, entry)
        except BaseException:  # no memory: a task that continues must be in no queue
            wait.withdraw(kernel)
            raise
        kernel.blocked(task, wait)
        for case in self._cases:
            case.enlisted(kernel)
        return SUSPENDED


def select(*cases: Operation[Any], default: Any = NO_DEFAULT) -> Select:
    """Awaited: wait for the first of several operations, and return a `Selected`. Exactly one takes effect.

    The cases are operations that were not awaited: `send`, `receive`, `reserve`, `Event.wait`, `Lock.acquire`,
    `Semaphore.acquire`, `Task.wait`, `Task.pause`, `Nursery.wait_exhausted`, `sleep`, `sleep_until`, `Stream.receive`,
    `Listener.accept`, `wait_readable`, `wait_writable`, `wait_signal`. If several are ready, the seed of the run
    decides. With `default=` a select never waits: it returns `Selected(-1, default)` when no case is ready. A select
    costs as much as its most expensive case.

    ```python
    import bursar


    async def main():
        send, receive = bursar.channel()
        index, value = await bursar.select(receive.receive(), bursar.sleep(3))
        print("case", index, "at", await bursar.now(), "s")


    bursar.run(main, clock="virtual")
    ```

    ```text
    case 1 at 3.0 s
    ```
    """
    if not cases:
        raise ValueError("select() needs at least one case; with none it would wait for ever")
    for case in cases:
        if isinstance(case, Request):  # pyright: ignore[reportUnnecessaryIsInstance]
            case.mark_used()
    for case in cases:
        if not isinstance(case, Operation):  # pyright: ignore[reportUnnecessaryIsInstance]
            instead = ": pass task.wait()" if isinstance(case, TaskHandle) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"select({case!r}): a case is an operation that was not awaited, such as receive.receive() or sleep(1)"
                f"{instead}"
            )
    return Select(cases, default)
