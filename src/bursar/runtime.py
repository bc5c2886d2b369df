"""`Runtime`: the one root. It owns the kernel, the host, the capabilities and the evidence of one run.

There is no global runtime and no current one: everything reaches its runtime through the kernel that drives it. Several
may exist at once, in one thread one inside the other or in several threads; none knows of the others.

`run` is the plain pump: dispatch a burst, look at the host, fire what is due, wait when nothing is runnable. A run
that can never go on (every task waits, no timer, nobody outside) is reported as a deadlock, with the wait graph,
after its tasks have had their chance to clean up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal, TypeVar, TypeVarTuple

from bursar import profile as profiles
from bursar import snapshot
from bursar.clock import to_ns
from bursar.errors import BursarError, Deadlock, NotBuilt, RuntimeUsed, brief
from bursar.execution.asyncgen import AsyncGenerators
from bursar.execution.coroutine import Coroutines, start
from bursar.hosts import Host
from bursar.hosts.native import NativeHost
from bursar.hosts.virtual import VirtualHost
from bursar.law import cancel
from bursar.law.budget import UNITS_MAX, UNSTATED, Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.capability import Capability
from bursar.law.chain import fingerprint
from bursar.law.dispatch import Report
from bursar.law.kernel import Kernel
from bursar.law.lanes import Lane
from bursar.law.state import OutcomeKind
from bursar.law.steal import StealPolicy
from bursar.law.task import Task
from bursar.nursery import require_coroutine_function
from bursar.task import Task as TaskHandle
from bursar.task import unwrap

T = TypeVar("T")
C = TypeVar("C", bound=Capability)
Ts = TypeVarTuple("Ts")

KERNEL_VARIABLE: Final = "BURSAR_KERNEL"
BURST_MAX: Final = 64  # decisions between two looks at the clock and at what happened outside


def kernel_in_use() -> str:
    """The name of the kernel that runs programs, as `BURSAR_KERNEL` chooses it."""
    asked = os.environ.get(KERNEL_VARIABLE) or "python"
    if asked == "python":
        return asked
    if asked == "native":
        raise NotBuilt(
            f"{KERNEL_VARIABLE}=native: the native kernel is not built yet; "
            f"unset {KERNEL_VARIABLE} or set it to 'python'"
        )
    raise BursarError(f"{KERNEL_VARIABLE}={asked}: no such kernel; the kernels are 'python' and 'native'")


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a cancelled block may still use to tidy up."""

    ops: int = 10_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if type(self.ops) is not int or not 0 <= self.ops <= UNITS_MAX:
            raise ValueError(f"Cleanup(ops={self.ops!r}): must be a whole number, not negative")
        to_ns(self.seconds, "Cleanup.seconds")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a run has done so far, in counts."""

    decisions: int
    by_lane: dict[str, int]
    spawned: int
    live: int
    done: dict[str, int]
    steals: int
    steals_failed: int
    counters: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        lanes = ", ".join(f"{n:,} {lane}" for lane, n in self.by_lane.items() if n)
        done = ", ".join(f"{n:,} {kind}" for kind, n in self.done.items() if n)
        return (
            f"{self.decisions:,} decisions ({lanes or 'none'}); {self.spawned:,} tasks: {self.live:,} live, "
            f"done: {done or 'none'}; {self.steals:,} steals; {self.seconds:g} s"
        )


class Runtime:
    """One run of one program. The keywords are those of `bursar.run`."""

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        profile: str = "service",
        seed: int = 0,
        workers: int = 1,
        clock: Literal["real", "virtual"] = "real",
        host: Host | None = None,
        record: object = None,
        capabilities: Iterable[Capability] | None = None,
        steal: str = "random",
        cleanup: Cleanup | None = None,
        yield_interval: int | None = None,
        dump_signal: int | None = None,
    ) -> None:
        if record is not None:
            raise NotBuilt("record=...: trace files belong to evidence, which is not built yet")
        if clock not in ("real", "virtual"):
            raise ValueError(f"clock={clock!r}: must be 'real' or 'virtual'")
        if type(seed) is not int:
            raise TypeError(f"seed={seed!r}: must be an int")
        if yield_interval is not None and (type(yield_interval) is not int or yield_interval < 1):
            raise ValueError(f"yield_interval={yield_interval!r}: must be a whole number of ops, at least 1")
        policies = [str(policy) for policy in StealPolicy]
        if steal not in policies:
            raise ValueError(f"steal={steal!r}: must be one of {', '.join(policies)}")
        kernel_in_use()
        chosen = profiles.find(profile)
        if profile == "sovereign" and budget is None:
            raise ValueError(
                "profile 'sovereign' grants nothing by itself: say what the program may spend, budget=Budget(...)"
            )
        cleanup = cleanup or Cleanup()
        self.profile = chosen
        self.kernel = Kernel(
            seed=seed,
            workers=workers,
            budget=budget or UNSTATED,
            steal_policy=StealPolicy(steal),
            yield_interval=yield_interval or chosen.yield_interval,
            cleanup_ops=cleanup.ops,
            cleanup_ns=to_ns(cleanup.seconds, "Cleanup.seconds"),
            inherit=chosen.inherit,
            default_spawns=chosen.default_spawns,
        )
        self.kernel.actors = chosen.actors
        self.kernel.root.cancel_on_failure = False
        given = chosen.implicit if capabilities is None else tuple(capabilities)
        self.kernel.root.capabilities = {type(c): self._own(c) for c in given}
        self._make_host = (lambda: host) if host is not None else VirtualHost if clock == "virtual" else NativeHost
        self._host: Host | None = None  # while it runs
        self._coroutines = Coroutines(self.kernel)
        self._generators = AsyncGenerators(self.kernel)
        self._dump_signal = dump_signal
        self._used = False
        self._stops: deque[str] = deque()  # why the program was asked to stop, from outside the pump
        self._stop_asked = False
        self._interrupts = 0
        self._interrupt_seen = False
        self._deadlock: Deadlock | None = None

    # ---- running

    def run(self, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """Run `fn(*args)` as the main task, and everything it spawns, to the end."""
        require_coroutine_function(fn)
        if self._used:
            raise RuntimeUsed("this Runtime has run a program already; make a new one for the next")
        self._used = True
        kernel = self.kernel
        kernel.thread = threading.get_ident()
        main = kernel.spawn(kernel.root, name=getattr(fn, "__qualname__", "main"), pinned=True)
        start(main, fn, args)
        host = self._host = self._make_host()
        self._coroutines.clock = host.now_ns
        self._generators.wake = host.wake
        try:
            with self._generators.hooked(), self._signals():
                self._pump(host)
                while self._generators.close_all():
                    self._pump(host)
        except BaseException:
            self._abandon()
            raise
        finally:
            self._host = None
            host.close()
        kernel.close_nursery(kernel.root)
        kernel.end_nursery(kernel.root)
        return self._result(main)

    def _pump(self, host: Host) -> None:
        """Until no task is left: dispatch, look at the host, wait."""
        kernel, poll, generators = self.kernel, self._coroutines.poll, self._generators
        while kernel.tasks:
            kernel.advance(host.now_ns())
            generators.close_collected()
            if self._interrupts and not self._interrupt_seen:
                self._interrupt_seen = True
                self._stops.append("interrupted by Ctrl-C")
            while self._stops:
                self._stop(CancelReason(CancelKind.USER, self._stops.popleft()))
            for _ in range(BURST_MAX):
                task = kernel.step()
                if task is None:
                    break
                poll(task)
                if generators.collected:
                    generators.close_collected()
            asked = self._stops or (self._interrupts and not self._interrupt_seen)
            if not kernel.runnable and kernel.tasks and not asked:
                self._idle(host)

    def _idle(self, host: Host) -> None:
        """Nothing is runnable: wait for the next timer, or say that there is nothing to wait for."""
        deadline_ns = self.kernel.timers.next_deadline_ns()
        if deadline_ns is not None:
            host.wait_until(deadline_ns)
            return
        if self._deadlock is None:
            graph = snapshot.wait_graph(self.kernel)
            message = "every task waits, no timer is armed and nothing outside can wake one:"
            self._deadlock = Deadlock(message, graph)
            self._stop(CancelReason(CancelKind.SHUTDOWN, "deadlock"))
            return
        for task in list(self.kernel.root.children.values()):  # cancelled and still stuck: behind a shield
            cancel.cut(self.kernel, task, "waited for ever behind a shield")

    def _result(self, main: Task) -> Any:
        outcome = main.outcome
        assert outcome is not None, "the pump ends when every task has"
        if self._deadlock is not None:
            raise self._deadlock
        if self._interrupts and outcome.kind is not OutcomeKind.OK:
            raise KeyboardInterrupt from outcome.error
        if outcome.kind is OutcomeKind.PANICKED:
            assert outcome.error is not None, "a panic has an error"
            raise outcome.error
        return unwrap(main.name, outcome)

    def _abandon(self) -> None:
        """The run was torn down from outside: close what is left without resuming it."""
        self.kernel.current = None
        for task in reversed(list(self.kernel.tasks.values())):
            try:
                task.work.close()
            except BaseException as error:
                self.kernel.report("cleanup_failed", task, f"raised {brief(error, repr)} while the run was torn down")

    # ---- stopping

    def cancel(self, detail: str = "") -> None:
        """Ask the whole program to stop: cancels the root nursery. Safe from any thread and from signal handlers.

        The pump carries it out, before its next burst; asking again changes nothing.
        """
        if not self._stop_asked:
            self._stop_asked = True
            self._stops.append(brief(detail))
            if self._host is not None:
                self._host.wake()

    def _stop(self, reason: CancelReason) -> None:
        """Cancel what the root nursery holds. The nursery itself stays open: closing async generators needs it."""
        for child in list(self.kernel.root.children.values()):
            cancel.request(self.kernel, child, reason)

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Ctrl-C cancels the program, a second one stops it at once; another signal may print a dump."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        restore: list[tuple[int, Any]] = []
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Runtime):
            restore.append((signal.SIGINT, signal.signal(signal.SIGINT, self._on_interrupt)))
        if self._dump_signal is not None:
            restore.append((self._dump_signal, signal.signal(self._dump_signal, self._on_dump)))
        try:
            yield
        finally:
            for number, handler in reversed(restore):
                signal.signal(number, handler)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._host is not None:
            self._host.wake()
        if self._interrupts > 1:
            self._coroutines.aborting = True
            raise KeyboardInterrupt

    def _on_dump(self, number: int, frame: FrameType | None) -> None:
        """Between any two lines of the program: whatever goes wrong here must not become its problem."""
        with contextlib.suppress(Exception):
            os.write(sys.stderr.fileno(), f"{self.snapshot()}\n".encode())

    # ---- authority

    def grant(self, capability: C, to: TaskHandle[Any] | None = None) -> C:
        """Mint a capability from its description; with `to`, put it into the hands of a task."""
        minted = self.kernel.registry.mint(capability)
        if to is not None:
            record = to.inside(self.kernel)
            record.capabilities = {**record.capabilities, type(minted): minted}
        return minted

    def _own(self, capability: Capability) -> Capability:
        """A description is minted; what is minted already must be ours."""
        if capability.seal is None:
            return self.grant(capability)
        self.kernel.registry.authenticate(capability)
        return capability

    def revoke(self, capability: Capability) -> None:
        """Take a capability back, and with it all that were derived from it."""
        self.kernel.registry.revoke(capability)

    # ---- evidence

    @property
    def fingerprint(self) -> str:
        """The last value of the decision chain: equal fingerprints, equal schedules."""
        return fingerprint(self.kernel.chain)

    @property
    def reports(self) -> list[Report]:
        """What went wrong without stopping anybody: leaks, swallowed cancels, cut-off cleanups."""
        return list(self.kernel.reports)

    def snapshot(self) -> snapshot.Snapshot:
        """The task tree as it is now, with each task's state, reason and spending."""
        return snapshot.take(self.kernel)

    def statistics(self) -> Statistics:
        """Counts of the run so far."""
        kernel = self.kernel
        stats = [worker.stats for worker in kernel.workers]
        return Statistics(
            decisions=kernel.decisions,
            by_lane={
                lane.name.lower(): sum(s.dispatched[lane] for s in stats) for lane in Lane if lane is not Lane.IDLE
            },
            spawned=kernel.spawned,
            live=len(kernel.tasks),
            done={kind.name.lower(): kernel.done[kind] for kind in OutcomeKind},
            steals=sum(s.steals for s in stats),
            steals_failed=sum(s.steals_failed for s in stats),
            counters=dict(sorted(kernel.counters.items())),
            seconds=kernel.now_ns / 1e9,
        )


def run(
    fn: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    budget: Budget | None = None,
    profile: str = "service",
    seed: int = 0,
    workers: int = 1,
    clock: Literal["real", "virtual"] = "real",
    host: Host | None = None,
    record: object = None,
    capabilities: Iterable[Capability] | None = None,
    steal: str = "random",
    cleanup: Cleanup | None = None,
    yield_interval: int | None = None,
    dump_signal: int | None = None,
) -> T:
    """Run an async function and everything it spawns; return its value or raise what it failed with."""
    runtime = Runtime(
        budget=budget,
        profile=profile,
        seed=seed,
        workers=workers,
        clock=clock,
        host=host,
        record=record,
        capabilities=capabilities,
        steal=steal,
        cleanup=cleanup,
        yield_interval=yield_interval,
        dump_signal=dump_signal,
    )
    return runtime.run(fn, *args)
