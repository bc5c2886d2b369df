"""Replay: run a program again on the recorded inputs, and check that it does the same, event by event.

    from the trace          the time, what happened outside and when, the answers of the host
    from the program        everything else; each event is compared with the trace

A replay opens no socket, reads no clock and waits for nothing, with one exception. Only the program itself can repeat
what its own threads post (a spawn, a call, a result). The replay waits for such a post, with a limit, and delivers it
at the recorded moment.

REPLAY-1  a replay asks the host for nothing

`evidence.replay.cursor` compares the events and raises the difference (REPLAY-2, REPLAY-3).

Rejected: to record the schedule and force it upon the program. That would replay any program, also one that has nothing
to do with the trace. Here the schedule follows from the inputs, and the replay proves this.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, TypeVarTuple, cast

from bursar.backend import Gate
from bursar.drive.host import Host
from bursar.drive.pump import Outside, Pump
from bursar.errors import HostLost, HostMisuse, TraceCut, TraceError
from bursar.evidence.replay.cursor import ReplayCursor
from bursar.law.admission.authority import Authority
from bursar.law.budget import COMPONENTS, Budget
from bursar.law.capability import Capability
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX
from bursar.law.kernel import Kernel
from bursar.law.task import Task
from bursar.runtime import INTERRUPTED, Runtime
from bursar.text import brief
from bursar.trace.host_answer_codec import unpack_answer
from bursar.trace.reader import Trace
from bursar.trace.writer import digest_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_S: Final = 10.0  # how much longer than in the recorded run a thread of the program may take
LOOK_S: Final = 0.001  # between two checks of a condition that has no notification, such as a thread's next call
SELF_CONTAINED: Final = ("cancel", "alarm", "unwatchable")  # kinds of posts that their record describes completely
EXPECTED: Final = ("ready", "signal", "native")  # kinds of posts that only make a waiting task look again
FOREIGN: Final = {  # kinds of posts that need a loop of asyncio, or a page
    "asyncio": "asyncio; replay it in an asyncio loop: await bursar.evidence.replay.replay_asyncio.replay(trace, main)",
    "promise": "promises of a page, which a trace does not hold: it cannot be replayed",
}
_RESPONSE: Final = re.compile(r"(?:paused|thread) (\d+ \d+) (?:(\d+)|stopped at (\d+))")  # see `threads.checkpoint`
LIMITS: Final = {"cancel_streak_max": CANCEL_STREAK_MAX, "timed_streak_max": TIMED_STREAK_MAX}


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay without a difference: the `value` or the `error`, the number of `events`, the
    `fingerprint`."""

    value: Any  # that the program returned
    error: BaseException | None  # that the program raised
    events: int  # how many were compared
    fingerprint: str


# ---- the host and the pump


def _nothing(*args: object) -> None:
    pass


class ReplayHost:
    """A host without loop, clock and files. It runs batch after batch, as the trace says."""

    def __init__(self, cursor: ReplayCursor) -> None:
        self.name = str(cursor.trace.header["host"])
        self.virtual = cursor.is_virtual
        self._cursor = cursor
        if cursor.trace.header["files"]:
            self.watch = self.unwatch = _nothing  # these attributes say that the host can watch files

    def open(self, pump: Pump) -> None:
        self._pump = pump

    def close(self) -> None:
        """There is nothing to close."""

    def now_ns(self) -> int:
        return self._cursor.now_ns()

    def entropy(self, size: int) -> bytes:
        raise HostMisuse("REPLAY-1: a replay takes entropy only from its trace")

    def microtask(self) -> None:
        """Nothing to schedule: the trace says when a batch begins. The same holds for `handoff` and `wake`."""

    handoff = wake = microtask

    def alarm(self, deadline_ns: int | None) -> None: ...

    def run_until(self, over: Callable[[], bool]) -> None:
        while not over():
            self._pump.drain()


class ReplayPump(Pump):
    """The pump, with the trace instead of the outside."""

    def __init__(
        self, kernel: Kernel, program: ReplayRuntime, host: Host, burst_limit: int, cursor: ReplayCursor
    ) -> None:
        super().__init__(kernel, program, host, burst_limit)
        self.live = False
        self._runtime = program
        self._cursor = cursor
        self._made: deque[Outside] = deque()  # posts of the program's own threads that no record has asked for yet
        self._posted = threading.Condition()
        self._start_s = time.monotonic()

    def recorded_responses(self, label: str) -> dict[int, str]:
        return self._runtime.responses.get(label, {})

    def ask(self, task: Task, what: str, call: Callable[[], T]) -> T:
        """The recorded answer, if the task asks what it asked in the recorded run (REPLAY-1)."""
        cursor = self._cursor
        record = cursor.upcoming("host_answer")
        if cursor.failure is None:
            asked, answer = unpack_answer(record.text) if record is not None else ("", None)
            if record is not None and (record.numbers, asked) == ((task.id,), what):
                cursor.advance()
                if isinstance(answer, OSError):
                    raise answer
                return cast("T", answer)
            cursor.differ(f"task {task.name!r} ({task.id}) asks the host: {what}")
        assert cursor.failure is not None, "REPLAY-2"
        raise cursor.failure

    def post(self, label: str, deliver: Callable[[], int | None]) -> None:
        if label.partition(" ")[0] in SELF_CONTAINED + EXPECTED:
            return  # the record of the trace delivers it
        with self._posted:
            self._made.append(Outside(label, deliver))
            self._posted.notify()
        if self.over:
            self._deliver_rest()
        else:
            self.host.wake()

    def has_made(self, labels: Counter[str]) -> bool:
        """Whether the program has posted all of these."""
        with self._posted:
            return labels <= Counter(outside.label for outside in self._made)

    def _next_outside(self) -> Outside | None:
        record = self._cursor.upcoming("outside")
        if record is None or self._cursor.failure is not None:
            return None
        label = record.decoded_text
        return Outside(label, self._delivery(label))

    def _delivery(self, label: str) -> Callable[[], int | None]:
        """The function that does what the recorded label says."""
        word, _, detail = label.partition(" ")
        match word:
            case "cancel":
                return partial(self._runtime.cancel_as_recorded, detail)
            case "alarm":
                return partial(self._alarm_as_recorded, detail)
            case _ if label in self.expected:
                return self.expected[label]
            case "unwatchable":
                return partial(self._refuse_as_recorded, detail)
            case _ if word in EXPECTED:
                return _nothing  # no task waits for it any more
            case _:
                return self._from_program(label)

    def _alarm_as_recorded(self, detail: str) -> None:
        id, generation = (int(part) for part in detail.split())
        self.kernel.timer_fired(id, generation)

    def _refuse_as_recorded(self, detail: str) -> None:
        id, generation = (int(part) for part in detail.split())
        task = self.kernel.tasks.get(id)
        if task is not None and task.wait is not None and task.generation == generation:
            refusal = HostMisuse(f"task {task.name!r}: host {self.host.name!r} could not watch the file")
            task.wait.refuse(self.kernel, refusal)

    def _from_program(self, label: str) -> Callable[[], int | None]:
        """Wait for a post of the program's own threads, as long as in the recorded run and PATIENCE_S more."""
        with self._posted:
            found = self._posted.wait_for(
                lambda: next((outside for outside in self._made if outside.label == label), None), self.patience_s()
            )
            if found is not None:
                self._made.remove(found)
                return found.deliver
        self.gave_up(label)
        return _nothing

    def until(self, ready: Callable[[], bool], what: str) -> None:
        while not ready():
            if self.patience_s() <= 0:
                self.gave_up(what)
                return
            with self._posted:
                self._posted.wait(LOOK_S)

    def patience_s(self) -> float:
        """How much longer the program may take until it posts what is recorded next."""
        recorded_s = 0.0 if self.host.virtual else max(self._cursor.now_ns(), self.kernel.now_ns) / 1e9
        return max(0.0, self._start_s + recorded_s + PATIENCE_S - time.monotonic())

    def gave_up(self, what: str) -> None:
        self._cursor.differ(
            f"nothing: the program did not cause {what!r}, with {PATIENCE_S:g} s more than in the recorded run"
        )

    def _has_mail(self) -> bool:
        """Whether the pump of the recorded run went on at once: the next batch belongs to the same turn of the host."""
        turn = self._cursor.upcoming("host_turn")
        if turn is not None:
            return turn.numbers[0] == self.turn
        return self._cursor.upcoming("scheduler_burst_limit_reached") is not None

    def _go_on(self, full: bool) -> None:
        self._pending = False  # a nested call of the host must not count: the trace decides (see `_has_mail`)
        self.turn = self._cursor.turn  # a replay cuts no batch, but the recorded host may have had turns in this one
        super()._go_on(full)

    def _deliver_rest(self) -> None:
        with self._posted:
            self._inbox.extend(self._made)
            self._made.clear()
        super()._deliver_rest()


class ReplayRuntime(Runtime):
    """A runtime with the settings of the recorded run."""

    def __init__(
        self, trace: Trace, capabilities: list[Capability] | None, make_host: Callable[[ReplayCursor], Host]
    ) -> None:
        header = trace.header
        self.cursor = ReplayCursor(trace)
        self.responses: dict[str, dict[int, str]] = {}  # label of a thread job → number of a checkpoint → response
        super().__init__(
            budget=Budget(**dict(zip(COMPONENTS, header["budget"], strict=True)), **header.get("named", {})),
            profile=header["profile"],
            seed=header["seed"],
            workers=header["workers"],
            clock=cast("Literal['real', 'virtual']", header["clock"]),
            host=make_host(self.cursor),
            capabilities=capabilities,
            steal=header["steal"],
            yield_interval=header["yield_interval"],
        )
        self.settings = replace(self.settings, scheduler=header["scheduler"])
        self.kernel.gate = Gate(0, Authority._read(header["admission"]))  # this machine may have another number of CPUs
        self.kernel.root.gate = self.kernel.gate if header["admits_all"] else None
        self.kernel.cleanup_ops = header["cleanup_ops"]
        self.kernel.cleanup_ns = header["cleanup_ns"]
        self.cursor.kernel = self.kernel
        self.driver.recorded_cpu_ns = self.cursor.cpu_ns

    def _make_pump(self) -> Pump:
        return ReplayPump(self.kernel, self, self._host, self.cursor.trace.header["burst_limit"], self.cursor)

    def _begin_evidence(self) -> None:
        self.kernel.observe(self.cursor)

    def cancel_as_recorded(self, detail: str) -> None:
        self._interrupts.count += detail == INTERRUPTED
        self._cancel_now(detail)

    def _interrupted(self) -> None:
        """Ctrl-C stops the replay itself. The program does not get it."""
        self.driver.aborting = True
        raise KeyboardInterrupt


# ---- one replay, from the trace to its result


def replay(
    trace: Trace,
    fn: Callable[[*Ts], Coroutine[Any, Any, Any]],
    *args: *Ts,
    capabilities: Iterable[Capability] | None = None,
) -> Replayed:
    """Run a program again on a trace.

    Raises `Divergence` if the program does not do what the trace says, and `TraceError` if the trace is damaged. If the
    trace has no end, raises `TraceCut` after all its records were replayed.
    """
    runtime = prepare(trace, capabilities, ReplayHost)
    value, error = None, None
    try:
        value = runtime.run(fn, *args)
    except BaseException as raised:
        error = raised
    return finish(runtime, value, error)


def prepare(
    trace: Trace,
    capabilities: Iterable[Capability] | None,
    make_host: Callable[[ReplayCursor], Host],
    outside_kinds: frozenset[str] = frozenset(),
) -> ReplayRuntime:
    """The runtime of a replay. Raises `TraceError` for what cannot be replayed, before any code of the program runs.

    `outside_kinds` are the kinds in `FOREIGN` that the host can repeat.
    """
    given = None if capabilities is None else list(capabilities)
    _require_replayable(trace, given)
    words, responses = _read_through(trace)
    for word in words - outside_kinds:
        if word in FOREIGN:
            raise TraceError(f"{trace.path}: its tasks waited for {FOREIGN[word]}")
    try:
        runtime = ReplayRuntime(trace, given, make_host)
        runtime.responses = responses
        return runtime
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{trace.path}: this version of Bursar cannot use the header: {brief(error, repr)}") from None


def finish(runtime: ReplayRuntime, value: Any, error: BaseException | None) -> Replayed:
    """After the run: its result, or the difference that was found."""
    cursor = runtime.cursor
    if isinstance(runtime.pump.error, KeyboardInterrupt):
        raise runtime.pump.error
    cursor.over()
    if cursor.failure is not None and not isinstance(cursor.failure, HostLost):
        raise cursor.failure from (error if error is not cursor.failure else None)
    return Replayed(value, error, cursor.number, runtime.fingerprint)


def _require_replayable(trace: Trace, capabilities: list[Capability] | None) -> None:
    """Raise `TraceError` if this version, or these capabilities, cannot repeat the run."""
    header = trace.header
    for name, here in LIMITS.items():
        if header.get(name) != here:
            raise TraceError(
                f"{trace.path}: {name} was {header.get(name)!r} and is {here} in this version of Bursar; "
                "replay it with the version that made it"
            )
    for name in ("burst_limit", "cleanup_ops", "cleanup_ns"):
        if type(header.get(name)) is not int or header[name] < 0:
            raise TraceError(
                f"{trace.path}: {name} in the header is missing or invalid; use the version of Bursar that made it"
            )
    held = header.get("capabilities")
    mine = None if capabilities is None else sorted(type(c).__name__ for c in capabilities)
    if held != mine:
        raise TraceError(
            f"{trace.path}: was recorded with capabilities={held} and is replayed with {mine}; pass the same"
        )


def _read_through(trace: Trace) -> tuple[set[str], dict[str, dict[int, str]]]:
    """Check the whole file. Returns the kinds of posts in it, and the recorded responses of functions on threads."""
    words: set[str] = set()
    responses: dict[str, dict[int, str]] = {}
    try:
        for kind, _, text in trace.records():
            if kind.name == "outside":
                post = text.decode("utf-8", "replace")
                words.add(post.partition(" ")[0])
                if (found := _RESPONSE.fullmatch(post)) is not None:
                    label, pause, stop = found.groups()
                    responses.setdefault(label, {})[int(pause or stop)] = "paused" if pause else "stopped"
    except TraceCut:
        pass  # replay the records that are there; the cursor finds the missing end again
    return words, responses


def require_program(trace: Trace, file: Path) -> None:
    """Raise `TraceError` unless the trace comes from the program in `file` as it is now."""
    recorded = trace.header.get("program")
    origin = cast("dict[str, Any]", recorded) if isinstance(recorded, dict) else {}
    try:
        digest = digest_of(file)
    except OSError as error:
        raise TraceError(f"{file}: the program cannot be read: {error.strerror or brief(error)}") from None
    if origin.get("sha256") != digest:
        raise TraceError(
            f"{trace.path}: was recorded from {origin.get('file')}; {file} is another program, or was changed since "
            "then (its digest differs); --force replays it anyway"
        )
