"""One case on one host, and what of the run is compared. Also used inside Pyodide: it may import only what is there.

A case is named: a scenario by its name ("timer_race"), a generated program by its number ("program 17"). Generated
programs sleep whenever they like, so on a real clock their schedule depends on the machine; they always run on virtual
time, whatever host drives them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from parity.scenarios import BROKEN, SCENARIOS
from support import named_programs, programs
from support.evidence import CANCEL_KINDS, KINDS, REPORTS, Event, Memory, fingerprint

import bursar
from bursar import Runtime

PROGRAM = "program "
NAMED = "named "  # a program with named counters
ENDINGS = (bursar.BursarError, programs.Boom, programs.Crash, TimeoutError, BaseExceptionGroup)
PHASES = (
    "cancel_requested",
    "cancel_delivered",
    "cleanup_begun",
    "cleanup_ended",
    "cleanup_cut",
    "cancel_swallowed",
    "nursery_cancelling",
    "nursery_closed",
)
OUTCOMES = [kind.name.lower() for kind in bursar.OutcomeKind]

Main = Callable[[], Coroutine[Any, Any, Any]]


def seed_of(case: str) -> int:
    """A program's number is its seed."""
    return int(case.removeprefix(PROGRAM)) if case.startswith(PROGRAM) else {**SCENARIOS, **BROKEN}[case].seed


def prepare(case: str, host: Any, clock: str) -> tuple[Runtime, Main]:
    """A runtime for the case, and its main function."""
    if case.startswith(PROGRAM):
        number = seed_of(case)
        runtime = programs.runtime_for(number, workers=1 + number % 4, seed=number, host=host)
        return runtime, programs.Interpreter(programs.make(Random(number)), runtime.profile.name).main
    if case.startswith(NAMED):
        return named_programs.prepare(int(case.removeprefix(NAMED)), host=host)
    scenario = {**SCENARIOS, **BROKEN}[case]
    return Runtime(host=host, clock=clock, seed=scenario.seed, workers=scenario.workers), scenario.main


def result_of(get: Callable[[], Any]) -> Any:
    """What a run came to: its value, or the name of the error that ended it."""
    try:
        return get()
    except ENDINGS as error:
        return type(error).__name__


async def until_over(runtime: Runtime, main: Main) -> None:
    """Drive a guest of the loop that runs this."""
    over = asyncio.Event()
    runtime.on_end = over.set
    runtime.start(main)
    await over.wait()


# ---- whole logs


def run(case: str, host: Any, clock: str) -> dict[str, Any]:
    """On a host that is a loop."""
    runtime, main = prepare(case, host, clock)
    memory = Memory()
    memory.attach(runtime.kernel)
    return record(runtime, memory, result_of(lambda: runtime.run(main)))


async def run_guest(case: str, host: Any, clock: str) -> dict[str, Any]:
    """On a host that is a guest in the loop that runs this."""
    runtime, main = prepare(case, host, clock)
    memory = Memory()
    memory.attach(runtime.kernel)
    await until_over(runtime, main)
    return record(runtime, memory, result_of(runtime.result))


def record(runtime: Runtime, memory: Memory, result: Any) -> dict[str, Any]:
    """What must be the same on every host, and the whole log for whoever looks into a difference. All of it is JSON."""
    events = list(memory.events())
    assert not memory.dropped, "the log must be whole"
    names = {event.task_id: event.text for event in events if event.name == "task_spawned"}
    return {
        "result": result,
        "outcomes": [
            [names[e.task_id], OUTCOMES[e.numbers["outcome"]], e.text] for e in events if e.name == "task_done"
        ],
        "phases": [[e.name, names.get(e.task_id, ""), _cause(e)] for e in events if e.name in PHASES],
        "obligations": sorted(
            [names[e.task_id], e.name, e.text.partition(" ")[0]]
            for e in events
            if e.name in ("obligation_settled", "obligation_leaked")
        ),
        "decision_fingerprint": runtime.fingerprint,
        "event_fingerprint": fingerprint(events),
        "log": [event.as_dict() for event in events],
        "essence": [str(event.essence()) for event in events if event.essence() is not None],
    }


def _cause(event: Event) -> str:
    return CANCEL_KINDS[event.numbers["cause"]] if "cause" in event.numbers else ""


# ---- fingerprints only


class Essence:
    """The observer that fingerprints what must be the same on every host while it happens.

    The same value as `fingerprint` over the events of a `Memory`, without keeping them: a thousand programs have
    half a million.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._kernel = runtime.kernel
        self._digest = hashlib.blake2b(digest_size=8)
        self._kernel.observe(self)

    def __call__(self, name: str, task: Any, detail: Any) -> None:
        kind = KINDS[name]
        if not kind.host:
            numbers, text = kind.describe(self._kernel, task, detail)
            shared = (int(n) for n, field in zip(numbers, kind.fields, strict=True) if not field.host)
            shown = "" if name in REPORTS else text
            self._digest.update(repr((name, *shared, shown)).encode("utf-8", "surrogatepass"))

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()


def brief(case: str, host: Any) -> list[Any]:
    """Decision and event fingerprint, number of decisions, and ending, on a host that is a loop."""
    runtime, main = prepare(case, host, "virtual")
    essence = Essence(runtime)
    ending = result_of(lambda: runtime.run(main))
    return [runtime.fingerprint, essence.fingerprint, runtime.kernel.decisions, ending]


async def brief_guest(case: str, host: Any) -> list[Any]:
    """The same on a guest."""
    runtime, main = prepare(case, host, "virtual")
    essence = Essence(runtime)
    await until_over(runtime, main)
    return [runtime.fingerprint, essence.fingerprint, runtime.kernel.decisions, result_of(runtime.result)]
