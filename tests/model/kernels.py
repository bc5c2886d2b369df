"""The same calls on both kernels at once, and everything that can be seen of each, in plain values that compare.

A `Side` is one kernel with its own records, found by the numbers that both kernels must give alike. `Pair.both` makes a
call on each side, compares what came of it (a value, or an error's type and text), then what each told its observer,
and then the whole state of the law, record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import SimpleNamespace
from typing import Any

from support.kernel import NativeKernel
from support.law import (
    Nursery,
    Obligation,
    Pool,
    Scope,
    Task,
    Timer,
    TimerKind,
    cancel,
    check,
    kernel,
    named_of,
    outward,
    wake,
)

from bursar import Budget, BursarError, CancelReason, Capability, Outcome, State, _native

DONE_KEPT = 3  # ended tasks that are still looked at; the records of the others are free to be used again

PYTHON = SimpleNamespace(
    name="python",
    Kernel=kernel.Kernel,
    Task=Task,
    Nursery=Nursery,
    CancelScope=cancel.CancelScope,
    Timer=Timer,
    Wait=wake.Wait,
    WaitList=wake.WaitList,
)
NATIVE = SimpleNamespace(
    name="native",
    Kernel=NativeKernel,
    **{kind: getattr(_native, kind) for kind in ("Task", "Nursery", "CancelScope", "Timer", "Wait", "WaitList")},
)


def waits_of(base: type) -> SimpleNamespace:
    """The kinds of waiting that the machine knows, as subclasses of a kernel's own `Wait`."""

    class Nap(base):
        reason = "naps"

    class Stubborn(Nap):
        reason = "cannot be interrupted"
        interruptible = False

    class Sleep(Nap):
        reason = "sleeps"

        def __init__(self, kernel: Any, task: Any, deadline_ns: int) -> None:
            super().__init__(task)
            self.timer = kernel.timers.arm(deadline_ns, TimerKind.WAKE, task)

        def withdraw(self, kernel: Any) -> None:
            kernel.timers.disarm(self.timer)

    class Join(Nap):
        reason = "waits for the children of its nursery"

        def __init__(self, task: Any, nursery: Any) -> None:
            super().__init__(task)
            self.nursery = nursery
            nursery.joining = self

        def withdraw(self, kernel: Any) -> None:
            if self.nursery.joining is self:
                self.nursery.joining = None

    class Attend(Nap):
        reason = "waits for the end of another task"

        def __init__(self, task: Any, other: Any, wait_list: type) -> None:
            super().__init__(task)
            if other.waiters is None:
                other.waiters = wait_list()
            self.waiters = other.waiters
            self.waiters.join(self)

        def withdraw(self, kernel: Any) -> None:
            self.waiters.leave(self)

    class Watch(Nap):
        """Waits for a child that is on hold (`exhausted_waiter`) or that ends (`ends_waiter`)."""

        reason = "watches its nursery"

        def __init__(self, task: Any, nursery: Any, field: str) -> None:
            super().__init__(task)
            self.nursery, self.field = nursery, field
            setattr(nursery, field, self)

        def withdraw(self, kernel: Any) -> None:
            if getattr(self.nursery, self.field) is self:
                setattr(self.nursery, self.field, None)

    return SimpleNamespace(Nap=Nap, Stubborn=Stubborn, Sleep=Sleep, Join=Join, Attend=Attend, Watch=Watch)


class Ticket:
    """What admission would hold of a task: it writes down what the law tells it."""

    def __init__(self, told: list[str], excused: bool) -> None:
        self.excused = excused
        self.told = told

    def stopped(self, kernel: Any) -> None:
        self.told.append("stopped")

    def scope_cancelled(self, kernel: Any) -> None:
        self.told.append("scope_cancelled")

    def failed(self, error: Exception) -> None:
        self.told.append("failed")

    def ended(self, kernel: Any, outcome: Outcome) -> None:
        self.told.append(f"ended {outcome.kind.name}")

    def expired(self, kernel: Any, timer: Any) -> None:
        self.told.append(f"expired {timer.id}")


class Side:
    """One kernel, with everything that was made on it."""

    def __init__(self, law: SimpleNamespace, **settings: Any) -> None:
        self.law = law
        self.waits = waits_of(law.Wait)
        self.kernel = law.Kernel(**settings)
        self.told: list[Any] = []
        self.kernel.observe(self.hear)
        self.tasks: dict[int, Any] = {}
        self.nurseries: dict[int, Any] = {self.kernel.root.id: self.kernel.root}
        self.timers: dict[int, Any] = {}
        self.obligations: dict[int, Obligation] = {}
        self.capabilities: list[Capability] = []
        self.undone: list[int] = []
        self.tickets: list[str] = []  # what they were told

    def hear(self, kind: str, task: Any, detail: Any) -> None:
        self.told.append((kind, self.plain(task), self.plain(detail)))
        if kind == "timer_armed":
            self.timers[detail.id] = detail

    def keep(self, thing: Any) -> Any:
        """Remember what was made, under its number."""
        if isinstance(thing, self.law.Task):
            self.tasks[thing.id] = thing
        elif isinstance(thing, self.law.Nursery):
            self.nurseries[thing.id] = thing
        elif isinstance(thing, Obligation):
            self.obligations[thing.id] = thing
        return thing

    def forget(self) -> None:
        """Let go of what is over, so that its records can be used again."""
        done = [id for id, task in self.tasks.items() if task.state is State.DONE]
        for id in done[:-DONE_KEPT]:
            del self.tasks[id]
        for id in [id for id, nursery in self.nurseries.items() if nursery.state.terminal][:-DONE_KEPT]:
            del self.nurseries[id]
        for id in [id for id, timer in self.timers.items() if not timer.armed][:-DONE_KEPT]:
            del self.timers[id]

    # ---- plain values

    def plain(self, thing: Any) -> Any:
        match thing:
            case None | bool() | str():
                return thing
            case Enum():
                return thing.name
            case int():
                return thing
            case tuple() | list():
                return tuple(self.plain(item) for item in thing)
            case BaseException():
                return type(thing).__name__, str(thing)
            case Outcome():
                return thing.kind.name, self.plain((thing.value, thing.error, thing.reason))
            case CancelReason():
                return str(thing.kind), thing.detail, thing.by
            case Budget():
                return thing.as_tuple(), thing.named
            case Capability():
                return type(thing).__name__, thing._seal.serial if thing._seal is not None else None
            case Obligation():
                return "obligation", thing.id, thing.holder.id, thing.what, thing.settled.name
            case self.law.Task():
                return "task", thing.id, thing.name
            case self.law.Nursery():
                return "nursery", thing.id, thing.name, thing.state.name
            case self.law.Timer():
                return "timer", thing.id, thing.deadline_ns, thing.kind.name, thing.task.id, thing.generation
            case self.law.Wait() | wake.Wait():  # `Drain` is Python on both
                return "wait", thing.reason, thing.task.id, thing.generation
            case _ if hasattr(thing, "steal_enabled"):
                return "worker", thing.id
            case _:
                raise AssertionError(f"{self.law.name}: what is {thing!r}?")

    # ---- the whole state

    def picture(self) -> dict[str, Any]:
        """All that can be seen of this kernel."""
        kernel = self.kernel
        return (
            {
                "kernel": self.of_kernel(),
                "workers": [of_worker(worker) for worker in kernel.workers],
                "timers": self.of_timers(),
                "capabilities": [kernel.registry.in_use(c) for c in self.capabilities],
                "drawn": dict(kernel.registry._spent),
                "obligations": {id: o.settled.name for id, o in self.obligations.items()},
                "undone": list(self.undone),
                "tickets": list(self.tickets),
            }
            | {f"task {id}": self.of_task(task) for id, task in self.tasks.items()}
            | {f"nursery {id}": self.of_nursery(nursery) for id, nursery in self.nurseries.items()}
        )

    def of_kernel(self) -> dict[str, Any]:
        kernel = self.kernel
        return {
            "now_ns": kernel.now_ns,
            "counts": (kernel.decisions, kernel.runnable, kernel.live, kernel.spawned),
            "chain": kernel.chain,
            "done": {kind.name: n for kind, n in kernel.done.items()},
            "current": self.plain((kernel.current, kernel.registry.current)),
            "at": kernel.at.id if kernel.at is not None else None,
            "tasks": list(kernel.tasks),
            "injector": [task.id for task in kernel.injector],
            "draining": (kernel.draining_nurseries, [task.id for task in kernel.draining_holders]),
            "counters": {name: n for name, n in kernel.counters.items() if n},
            "reports": list(kernel.reports),
        }

    def of_timers(self) -> dict[str, Any]:
        timers = self.kernel.timers
        return {
            "count": len(timers),
            "next": (timers.next_deadline_ns(), self.plain(timers.next())),
            "armed": {id: timer.armed for id, timer in self.timers.items()},
        }

    def of_task(self, task: Any) -> dict[str, Any]:
        plain = ("name", "state", "outcome", "wake", "generation", "lane", "worker", "pinned", "started", "wait")
        plain += ("inbox", "error", "requested", "draining", "cancel_pending", "cleanup_left", "cut")
        plain += ("cleanup_timer", "ending", "credit_used", "credit_of", "short_of", "spawn_cap", "since_ns")
        found = {name: self.plain(getattr(task, name)) for name in plain}
        live = task.state is not State.DONE
        return found | {
            # of use only in a poll; in C it saturates far below zero, where the turn is over by any account
            "turn_left": max(-1, task.turn_left) if task.state is State.RUNNING else None,
            "effect": task.effect if live else None,  # nobody will be resumed with it
            "cleanup_left_ns": task.cleanup_left_ns if task.cleanup_left >= 0 else None,
            "spent": list(task.spent),
            "pools": of_pools(task.pools) if live else None,
            "shared": shared(task.pools, task.purse_of) if live else None,
            "capabilities": sorted(self.plain(c) for c in task.capabilities.values()),
            "owned": list(task.owned or ()),
            "obligations": list(task.obligations or ()),
            "waiters": [self.plain(wait) for wait in task.waiters or ()],
            "scopes": [self.of_scope(scope) for scope in outward(task)],
        }

    def of_scope(self, scope: Scope) -> tuple[Any, ...]:
        body = scope.body_of.id if scope.body_of is not None else None
        return (*self.plain((scope.phase, scope.reason, scope.shielded, scope.exiting, scope.timer)), body)

    def of_nursery(self, nursery: Any) -> dict[str, Any]:
        plain = ("name", "state", "owner", "reason", "spawned", "explicit", "hold", "cancel_on_failure")
        plain += ("joining", "exhausted_waiter", "ends_waiter", "failures")
        return {name: self.plain(getattr(nursery, name)) for name in plain} | {
            "children": list(nursery.children),
            "exhausted": list(nursery.exhausted),
            "pools": of_pools(nursery.pools),
            "capabilities": sorted(self.plain(c) for c in nursery.capabilities.values()),
        }


def of_worker(worker: Any) -> dict[str, Any]:
    stats = worker.stats
    return {
        "cancel": [task.id for task in worker.cancel],
        "timed": sorted(task.id for task in worker.timed),  # who is first shows when it is taken
        "pinned": [task.id for task in worker.pinned],
        "stealable": [task.id for task in worker.stealable],
        "streaks": (worker.cancel_streak, worker.timed_streak, worker.ready_turns, worker.next_victim),
        "dispatched": list(stats.dispatched),
        "stats": (stats.injected, stats.steals, stats.steals_failed, stats.stolen_from, worker.stamp),
    }


def of_pools(pools: tuple[Pool, ...]) -> list[tuple[int | None, ...]]:
    every = (*pools, *dict(sorted(named_of(pools).items())).values())
    return [(pool.left, pool.granted, pool.minted, pool.spent, pool.lent) for pool in every]


def shared(pools: tuple[Pool, ...], makers: tuple[Pool, ...]) -> list[bool]:
    return [pool is maker for pool, maker in zip(pools, makers, strict=True)]


class Pair:
    """Both kernels."""

    def __init__(self, **settings: Any) -> None:
        self.sides = [Side(law, **settings) for law in (PYTHON, NATIVE)]
        self.events: set[str] = set()
        self.compare("made")

    @property
    def python(self) -> Side:
        """To look at, for deciding what to do next: the other one is the same."""
        return self.sides[0]

    def both(self, call: Callable[[Side], Any]) -> Any:
        """Make the call on each; both must come to the same. Returns what it was on the side of Python."""
        results = [self._call(call, side) for side in self.sides]
        python, native = (side.plain(found) for side, found in zip(self.sides, results, strict=True))
        assert python == native, f"the same call came to {python} in Python and to {native} in C"
        self.compare(python)
        return results[0]

    @staticmethod
    def _call(call: Callable[[Side], Any], side: Side) -> Any:
        try:
            return side.keep(call(side))
        except (BursarError, ValueError, TypeError) as error:
            return error

    def compare(self, after: Any) -> None:
        """What was told since, and the state."""
        python, native = self.sides
        for left, right in zip(python.told, native.told, strict=False):
            assert left == right, f"after {after}: Python told {left}, C told {right}"
        assert len(python.told) == len(native.told), (
            f"after {after}: one of them told more: {python.told[len(native.told) :]}{native.told[len(python.told) :]}"
        )
        self.events.update(kind for kind, *_ in python.told)
        for side in self.sides:
            side.told.clear()
            side.forget()
            check(side.kernel)
        left, right = python.picture(), native.picture()
        if left != right:
            different = {part: _parts(left[part], right.get(part)) for part in left if left[part] != right.get(part)}
            raise AssertionError(f"after {after}, in Python and in C: {different or right.keys() - left.keys()}")


def _parts(left: Any, right: Any) -> Any:
    """Only what differs."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {name: (left[name], right.get(name)) for name in left if left[name] != right.get(name)}
    return left, right
