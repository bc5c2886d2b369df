"""`Runtime`: owns the kernel, the host, the capabilities and the evidence of one run.

There is no global runtime and no current one: code reaches its runtime through its kernel. Several runtimes may exist
at once, nested in one thread or in several threads. They do not know of each other.

The pump (`drive.pump`) drives the kernel from the host's loop. A run that can never continue ends with `Deadlock`:
every task waits, no timer is armed, and nothing outside can wake a task. The tasks are cancelled first, so that they
can clean up. The error holds the wait graph.

Traces, snapshots and statistics are imported where they are used, because most programs never use them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, TypeVarTuple, cast

from bursar import settings
from bursar.arguments import listed, require_choice, require_instance
from bursar.backend import Gate, Kernel, Task, kernel_in_use
from bursar.drive.asyncgen import AsyncGenerators
from bursar.drive.coroutine import Coroutines
from bursar.drive.host import Host
from bursar.drive.interrupt import Interrupts, is_interruptible
from bursar.drive.memory import MemoryMeter
from bursar.drive.pump import Pump, PumpState
from bursar.errors import Deadlock, HostLost, HostMisuse, ResultNotReady, RuntimeUsed
from bursar.hosts.selector import SelectorHost
from bursar.hosts.virtual import VirtualClock, VirtualHost
from bursar.law import cancel
from bursar.law import profile as profiles
from bursar.law.admission.authority import Aging, Authority
from bursar.law.budget import UNITS_MAX, UNSTATED, Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.capability import Capability
from bursar.law.chain import fingerprint
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX
from bursar.law.dispatch import Report
from bursar.law.pool import measures
from bursar.law.state import OutcomeKind
from bursar.law.steal import StealPolicy
from bursar.law.timers import to_ns
from bursar.ops.classify import require_coroutine_function
from bursar.ops.start import start
from bursar.ops.task import Task as TaskHandle
from bursar.ops.task import unwrap
from bursar.request import require_thread
from bursar.text import brief, counted, type_name
from bursar.threads import job as job  # the import registers how plain functions run
from bursar.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from bursar.ops.introspection import Snapshot
    from bursar.ops.statistics import Statistics
    from bursar.trace.ring import Memory
    from bursar.trace.writer import Recorder

T = TypeVar("T")
C = TypeVar("C", bound=Capability)
Ts = TypeVarTuple("Ts")

INTERRUPTED: Final = "interrupted by Ctrl-C"  # the detail of the cancel request


def make_host(host: Host | None, clock: str) -> Host:
    """The given host, or the default host of this platform, with the clock `clock`."""
    if host is None and clock == "real" and sys.platform == "emscripten":
        raise HostMisuse(
            "in a browser the loop belongs to the page, so `run` cannot wait here: "
            "await bursar.browser.run(main), or use clock='virtual'"
        )
    if host is None:
        return VirtualHost() if clock == "virtual" else SelectorHost()
    return cast("Host", VirtualClock(host)) if clock == "virtual" and not host.virtual else host


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a task that was cancelled or ran out of budget may still use to clean up.

    A task that exceeds either limit is closed and reported as `cleanup_cut`. The task pays as usual. For ops that it
    cannot pay it uses credit, up to `ops` in its whole life; the other counters have no credit. The seconds do not run
    while the task only waits for children that were cancelled.

    Attributes:
        ops: How many ops.
        seconds: How many seconds.
    """

    ops: int = 10_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if type(self.ops) is not int or not 0 <= self.ops <= UNITS_MAX:
            raise ValueError(f"Cleanup(ops={self.ops!r}): must be a whole number, not negative")
        to_ns(self.seconds, "Cleanup.seconds")


@functools.lru_cache(maxsize=1)  # every run needs it, and the settings rarely change
def _by_default(found: settings.Settings) -> Authority:
    """The authority for tasks that need admission when the program states no authority."""
    return Authority(
        order=Aging(found.aging_ms / 1000, found.aging_boost),
        resources={
            "cpu": found.cpu_slots,
            "ram": f"{found.ram_mb}MiB" if found.ram_mb else None,
            "vram": f"{found.vram_mb}MiB" if found.vram_mb else None,
        },
        pause_timeout=found.pause_ms / 1000,
    )


# Parts of a runtime that the package uses and a program does not: `dir(runtime)` leaves them out.
_PARTS: Final = frozenset({"driver", "kernel", "on_end", "profile", "program", "pump", "settings"})


class Runtime:
    """One run of one program, in two steps: for embedding, for tests, and to look inside.

    The keywords are those of `bursar.run`. A runtime runs one program, once; several runtimes may exist at the same
    time. All of a runtime belongs to the thread that runs it.

    ```python
    import bursar


    async def main():
        await bursar.checkpoint()


    runtime = bursar.Runtime(seed=7, clock="virtual")
    runtime.run(main)
    print(runtime.statistics())
    ```

    ```text
    2 decisions (2 ready); 1 tasks: 0 live, done: 1 ok; 0 steals; 0 s
    ```
    """

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _PARTS]

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        profile: str = "service",
        seed: int = 0,
        workers: int = 1,
        clock: Literal["real", "virtual"] = "real",
        host: Host | None = None,
        record: str | os.PathLike[str] | Memory | None = None,
        capabilities: Iterable[Capability] | None = None,
        steal: str = "random",
        cleanup: Cleanup | None = None,
        yield_interval: int | None = None,
        dump_signal: int | None = None,
        meter_memory: bool = False,
        admission: Authority | None = None,
    ) -> None:
        require_choice("clock", clock, ("real", "virtual"))
        require_choice("steal", steal, StealPolicy)
        for argument, value, kind, expected in (
            ("budget", budget, Budget, "a Budget(...), or None for no limit"),
            ("cleanup", cleanup, Cleanup, "a Cleanup(ops=..., seconds=...), or None"),
            ("admission", admission, Authority, "an Authority(...), or None"),
        ):
            if value is not None:
                require_instance(argument, value, kind, expected)
        require_instance("workers", workers, int, "a whole number")
        if type(seed) is not int:
            raise TypeError(f"seed={seed!r}: must be an int")
        if yield_interval is not None and (type(yield_interval) is not int or yield_interval < 1):
            raise ValueError(f"yield_interval={yield_interval!r}: must be a whole number of ops, at least 1")
        if meter_memory and record is not None:
            raise ValueError(
                "meter_memory=True, record=...: the memory use of a program differs from run to run, "
                "so a metered run cannot be replayed; choose one of the two"
            )
        kernel_in_use()
        chosen = profiles.find(profile)
        if profile == "sovereign" and budget is None:
            raise ValueError(
                "profile 'sovereign' grants nothing by itself: state what the program may spend, budget=Budget(...)"
            )
        cleanup = cleanup or Cleanup()
        self.profile = chosen
        self._seed = seed
        self.settings = settings.read()
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
        self.kernel.runtime = self
        self.kernel.root.cancel_on_failure = False
        self.kernel.root.sealed = chosen.sealed
        self.kernel.gate = Gate(0, admission or _by_default(self.settings))
        if admission is not None:
            self.kernel.root.gate = self.kernel.gate
        given = (
            chosen.implicit
            if capabilities is None
            else listed("capabilities", capabilities, Capability, "a capability such as CapIO()")
        )
        self.kernel.root.capabilities = {type(c): self._own(c) for c in given}
        self._host = make_host(host, clock)
        self._generators = AsyncGenerators(self.kernel, self._host.wake)
        self.driver = Coroutines(self.kernel)
        self.driver.measured = measures(self.kernel.root.pools)
        self.driver.collected = self._generators.collected
        self.driver.close_collected = self._generators.close_collected
        self.driver.begun = self._generators.begun
        self.driver.close_begun = self._generators.close_begun
        self._interrupts = Interrupts(self, self._host, dump_signal)
        self.pump = self._make_pump()
        self.driver.clock = self.pump.now_ns
        self._meter = MemoryMeter(self.kernel, is_interruptible) if meter_memory else None
        self.on_end: Callable[[], None] | None = None
        self._record = record
        self._recorder: Recorder | None = None
        self.program: dict[str, Any] = {}  # where the program came from, for the header of a trace
        self._settings: dict[str, Any] = {
            "clock": clock,
            "budget": (budget or UNSTATED).as_tuple(),
            **({"named": dict(budget.named)} if budget is not None and budget.named else {}),
            "capabilities": None if capabilities is None else sorted(type(c).__name__ for c in given),
            "admits_all": admission is not None,
        }
        self._main: Task | None = None
        self._stop_asked = False
        self._host_closed = False
        self._deadlock: Deadlock | None = None

    def _make_pump(self) -> Pump:
        return Pump(self.kernel, self, self._host)

    # ---- running

    def run(self, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """Run `fn(*args)` as the main task, and everything it spawns, to the end. A second call raises
        `RuntimeUsed`."""
        try:
            return self._run(fn, *args)
        except BaseException as error:
            hide_own_frames(error)
            raise

    def _run(self, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        require_coroutine_function(fn)
        run_until = getattr(self._host, "run_until", None)
        if run_until is None:
            raise HostMisuse(
                f"host {self._host.name!r} is a guest in another library's loop, so `run` cannot run it; "
                "await its own `run`, such as bursar.asyncio.run(main)"
            )
        self._require_unused()
        try:
            self._interrupts.listen()
            self._generators.hook_throughout()
            self.start(fn, *args)
            self.driver.held = True
            run_until(lambda: self.pump.over)
            if not self.pump.over:
                raise HostLost(f"host {self._host.name!r} returned while {counted(self.live, 'task')} lived")
        except BaseException as error:
            self._tear_down(error)
        finally:
            self.driver.held = False
            try:
                self._leave_loop()
            finally:  # again, because a signal handler of the program may have raised there
                self._leave_loop()
        return self.result()

    def start(self, fn: Callable[[*Ts], Coroutine[Any, Any, Any]], *args: *Ts) -> None:
        """Begin the run and return, for hosts that are guests in another loop. `on_end` is called when the run has
        ended."""
        require_coroutine_function(fn)
        self._require_unused()
        self.kernel.thread = self.pump.thread = threading.get_ident()
        self._begin_evidence()
        try:
            if self._meter is not None:
                self._meter.open()
                self.driver.meter = self._meter
            self._main = self.kernel.spawn(self.kernel.root, name=getattr(fn, "__qualname__", "main"), pinned=True)
            start(self._main, fn, args)
            self.pump.start()
            if type(self._host) is SelectorHost and self.pump.live:
                self.driver.start_ns = self._host.start_ns
        except BaseException as error:
            self._tear_down(error)

    def _require_unused(self) -> None:
        if self._main is not None or self.pump.over:
            raise RuntimeUsed("this Runtime has already run a program; make a new one for each run")

    def result(self) -> Any:
        """What `run` would have returned or raised, once the run has ended. For hosts."""
        main = self._main
        if self.pump.error is not None:
            raise self.pump.error
        if main is None or main.outcome is None:
            raise ResultNotReady("the program has not ended yet; read the result after `on_end` was called")
        outcome = main.outcome
        if self._deadlock is not None:
            raise self._deadlock
        if self._interrupts.count and outcome.kind is not OutcomeKind.OK:
            raise KeyboardInterrupt from outcome.error
        if outcome.kind is OutcomeKind.PANICKED:
            assert outcome.error is not None, "a panic has an error"
            raise BaseException.with_traceback(outcome.error, outcome.traceback)
        return unwrap(main.name, outcome)

    @property
    def live(self) -> int:
        """The number of live tasks."""
        return self.kernel.live

    # ---- the methods that the pump calls (see `drive.pump.Program`)

    def _batch_begins(self) -> None:
        self._interrupts.look()
        self._generators.close_collected()
        self._generators.hook()  # last, so that a failure above leaves no hook behind

    def _batch_ends(self) -> None:
        self._generators.unhook()
        if self._recorder is not None:
            self._recorder.flush()  # so that the trace has this whole batch if the run is killed now

    def _stuck(self) -> None:
        if self._deadlock is None:
            from bursar.ops.introspection import wait_graph

            graph = wait_graph(self.kernel)
            message = "every task waits, no timer is armed and nothing outside can wake a task:"
            self._deadlock = Deadlock(message, graph)
            self._stop(CancelReason(CancelKind.SHUTDOWN, "deadlock"))
            return
        for task in list(self.kernel.root.children.values()):  # cancelled and still stuck: behind a shield
            cancel.cut(self.kernel, task, "waited for ever behind a shield")

    def _ending(self) -> bool:
        return self._generators.close_all() and bool(self.kernel.live)  # an empty purse cannot pay for closing tasks

    def _ended(self) -> None:
        """The pump has stopped: close all that is still open, then call `on_end`."""
        try:
            if self._meter is not None:
                self.driver.meter = None
                self._meter.close()
            if self.kernel.live:
                self._abandon()
            else:
                self.kernel.close_nursery(self.kernel.root)
                self.kernel.end_nursery(self.kernel.root)
        finally:  # each of these steps happens even if an earlier one fails or is interrupted
            try:
                self._generators.unhook()  # an interrupt may have ended the batch before `_batch_ends`
            finally:
                try:
                    self._release()
                finally:
                    if self.on_end is not None:
                        self.on_end()

    def _leave_loop(self) -> None:
        """The loop has ended: restore what the process had before. Idempotent."""
        try:
            self._interrupts.restore()
        finally:
            try:
                self._generators.unhook_throughout()
            finally:
                self._release()  # `_ended` has done it, unless it was interrupted

    def _release(self) -> None:
        """Close the host and the trace. Idempotent: a call that an exception has interrupted is repeated."""
        try:
            if self.pump.started and not self._host_closed:
                self._host.close()
                self._host_closed = True
        finally:
            self._end_evidence()

    def _tear_down(self, error: BaseException) -> NoReturn:
        """The loop ended in the middle of the run."""
        self.pump.stop(error)
        raise error

    def _abandon(self) -> None:
        """The run was torn down from outside: close the live tasks without resuming them."""
        self.kernel.current = None
        for task in reversed(list(self.kernel.tasks.values())):
            try:
                task.work.close()
            except BaseException as error:
                self.kernel.report("cleanup_failed", task, f"raised {brief(error, repr)} while the run was torn down")

    # ---- stopping

    def cancel(self, detail: str = "") -> None:
        """Ask the whole program to stop: cancel the root nursery. Safe from any thread and from signal handlers.

        The pump carries the request out before its next burst. A second request changes nothing.
        """
        if not self._stop_asked:
            self._stop_asked = True
            self._ask_to_stop(brief(detail))

    def _ask_to_stop(self, detail: str) -> None:
        pump = self.pump
        idle = pump.started and pump.state is PumpState.IDLE  # otherwise a call of the pump runs or is scheduled
        pump.post(f"cancel {detail}", lambda: self._cancel_now(detail))
        if idle and not pump.over:
            self._host.wake()  # a signal handler is in the loop's own thread, but the loop may be asleep

    def _cancel_now(self, detail: str) -> None:
        if not self.pump.over:  # the run may have ended since the request was posted
            self._stop(CancelReason(CancelKind.USER, detail))

    def _stop(self, reason: CancelReason) -> None:
        """Cancel the tasks of the root nursery. The nursery stays open: tasks that close async generators run in it."""
        for child in list(self.kernel.root.children.values()):
            self.kernel.cancel_request(child, reason)

    def _interrupted(self) -> None:
        """Ctrl-C: cancel the program; for `Interrupts`."""
        self._ask_to_stop(INTERRUPTED)

    # ---- authority

    def grant(self, capability: C, to: TaskHandle[Any] | None = None) -> C:
        """Mint a capability from its description. With `to`, also give it to a task."""
        require_thread(self.kernel, "Runtime.grant()")
        minted = self.kernel.registry.mint(capability)
        if to is not None:
            record = to._inside(self.kernel)
            record.capabilities = {**record.capabilities, type(minted): minted}
        return minted

    def _own(self, capability: Capability) -> Capability:
        """Mint a description. A capability that is already minted must belong to this runtime."""
        if capability._seal is None:
            return self.grant(capability)
        self.kernel.registry.authenticate(capability)
        return capability

    def revoke(self, capability: Capability) -> None:
        """Revoke a capability, and every capability that was derived from it."""
        require_thread(self.kernel, "Runtime.revoke()")
        self.kernel.registry.revoke(capability)

    # ---- evidence

    def _begin_evidence(self) -> None:
        if self._record is None:
            return
        from bursar.trace.ring import Memory
        from bursar.trace.writer import Recorder

        if isinstance(self._record, Memory):
            self._record.attach(self.kernel)
        else:
            self._recorder = Recorder(self.kernel, self._record, self.header())
            self.kernel.observe(self._recorder)

    def _end_evidence(self) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        recorder.close({"error": type_name(self.pump.error) if self.pump.error is not None else ""})
        self._recorder = None
        if recorder.error is not None:
            detail = f"the trace {recorder.path} is incomplete: {recorder.error}"
            self.kernel.reports.append(Report("trace_failed", "", detail))

    def header(self) -> dict[str, Any]:
        """Everything that the run depends on, for the header of its trace."""
        from bursar.trace.file_format import CONTRACT, SCHEMA
        from bursar.trace.writer import versions

        kernel = self.kernel
        return {
            "schema": SCHEMA,
            "contract": CONTRACT,
            "versions": versions(),
            "kernel": kernel_in_use(),
            "host": self._host.name,
            "files": hasattr(self._host, "watch"),
            "seed": self._seed,
            "workers": len(kernel.workers),
            "steal": str(kernel.steal_policy),
            "profile": self.profile.name,
            "yield_interval": kernel.yield_interval,
            "cleanup_ops": kernel.cleanup_ops,
            "cleanup_ns": kernel.cleanup_ns,
            "burst_limit": self.pump.burst_limit,
            "cancel_streak_max": CANCEL_STREAK_MAX,
            "timed_streak_max": TIMED_STREAK_MAX,
            "root_region": kernel.root.id,
            "scheduler": self.settings.scheduler,
            "program": self.program,
            **self._settings,
            "admission": self.kernel.gate.authority._written(),
        }

    @property
    def fingerprint(self) -> str:
        """The last value of the decision chain, as sixteen hexadecimal digits. Equal fingerprints mean equal
        schedules."""
        return fingerprint(self.kernel.chain)

    @property
    def reports(self) -> list[Report]:
        """What went wrong without ending a task: leaks, swallowed cancellations, cleanup that was cut off. The
        newest thousand are kept."""
        return list(self.kernel.reports)

    def snapshot(self) -> Snapshot:
        """The task tree as it is now, with each task's state, reason and spending."""
        from bursar.ops.introspection import take

        return take(self.kernel, self._now_ns())

    def _now_ns(self) -> int:
        """The time for a reader outside any task. A task reads the time of its batch, which a replay repeats."""
        kernel, pump = self.kernel, self.pump
        if kernel.current is not None or not pump.live or not pump.started or pump.over:
            return kernel.now_ns
        return max(kernel.now_ns, self._host.now_ns())

    def _dump(self) -> Snapshot:
        """The task tree for a signal handler, which may interrupt a task: the time is always the host's."""
        from bursar.ops.introspection import take

        started = self.pump.started and not self.pump.over
        return take(self.kernel, max(self.kernel.now_ns, self._host.now_ns()) if started else self.kernel.now_ns)

    def statistics(self) -> Statistics:
        """Counts of the run so far."""
        from bursar.ops.statistics import count

        return count(self.kernel)


def run(
    fn: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    budget: Budget | None = None,
    profile: str = "service",
    seed: int = 0,
    workers: int = 1,
    clock: Literal["real", "virtual"] = "real",
    host: Host | None = None,
    record: str | os.PathLike[str] | Memory | None = None,
    capabilities: Iterable[Capability] | None = None,
    steal: str = "random",
    cleanup: Cleanup | None = None,
    yield_interval: int | None = None,
    dump_signal: int | None = None,
    meter_memory: bool = False,
    admission: Authority | None = None,
) -> T:
    """Run the coroutine function `fn(*args)` as the main task, with everything it spawns, and return its value.

    If `main` fails, `run` raises its error as it is, with a note that names the task. `run` is not awaited. A task may
    call it; the inner run is then independent of the outer one.

    ```python
    import bursar


    async def main(name):
        await bursar.sleep(1)
        return f"hello, {name}"


    print(bursar.run(main, "world", clock="virtual"))
    ```

    ```text
    hello, world
    ```

    The environment variable `BURSAR_KERNEL`, read once when `bursar` is imported, names the kernel of the process:
    `native`, the default where the extension was built, or `python`. Both take the same decisions.

    Args:
        fn: The main function, an `async def`.
        args: Its arguments.
        budget: Limits the purse of the run, from which `main` draws in every profile. The start of `main` costs one op
            and one spawn.
        profile: `"service"`, `"cluster"` or `"sovereign"`.
        seed: An int. The same seed gives the same choices.
        workers: Logical workers on the one thread, 1 to 4096.
        clock: `"real"`, or `"virtual"`: time jumps to the next timer when no task can run.
        host: What drives the run instead of Bursar's own loop: an object with the methods of `bursar.drive.host.Host`.
        record: Where the trace of the run goes: a path, or a `Memory` that keeps the newest events.
        capabilities: What `main` holds, instead of what the profile grants.
        steal: How an idle worker chooses a victim: `"random"`, `"round_robin"` or `"least_loaded"`.
        cleanup: What a stopped task may still use.
        yield_interval: Ops per turn, instead of the profile's.
        dump_signal: A signal that prints the task tree to the standard error stream.
        meter_memory: Charge what tasks really allocate to their `memory` budgets, and refund what is freed. Needs the
            native extension, and cannot be combined with `record`.
        admission: The rules of one gate for every task but the first. A nursery may have a gate of its own instead.

    Raises:
        Deadlock: No task can continue.
        KeyboardInterrupt: After Ctrl-C, when everything has been cleaned up. A second Ctrl-C stops at once.
        TaskCancelled: `main` was cancelled.
        ProfileError: The profile is `core`.
        TraceError: The trace cannot be written. Nothing has run then.
    """
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
        meter_memory=meter_memory,
        admission=admission,
    )
    try:
        return runtime.run(fn, *args)
    except BaseException as error:
        hide_own_frames(error)
        raise
