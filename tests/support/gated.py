"""Running a program with gates: on the virtual clock, with the law and the gates checked after every poll, recorded,
and the record verified."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import bursar
from bursar import Runtime
from support.admission import invariants
from support.drive import checked
from support.evidence import Trace, verify


@contextmanager
def watched(**keywords):
    """A runtime that is checked while it runs, and whose trace is verified afterwards."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.trace"
        runtime = checked(Runtime(clock="virtual", record=path, **keywords))
        poll = runtime.driver.poll

        def and_check(task):
            poll(task)
            invariants.check(runtime.kernel)

        runtime.driver.poll = and_check
        yield runtime
        assert verify(Trace(path)).fingerprint == runtime.fingerprint


def run(main, *args, **keywords):
    """Run to the end; what it returns, or raises."""
    with watched(**keywords) as runtime:
        try:
            result, error = runtime.run(main, *args), None
        except (bursar.BursarError, BaseExceptionGroup, Exception) as raised:
            result, error = None, raised
    if error is not None:
        raise error
    return result


class Log:
    """What tasks did, in order, each with the time."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, float]] = []

    async def work(self, name: str, seconds: float = 1.0) -> str:
        self.entries.append((name, await bursar.now()))
        if seconds:
            await bursar.sleep(seconds)
        return name

    @property
    def order(self) -> str:
        return " ".join(name for name, _ in self.entries)

    def at(self, name: str) -> float:
        """When it began."""
        return dict(self.entries)[name]


async def nap(seconds: float = 1.0) -> float:
    await bursar.sleep(seconds)
    return seconds


async def fails(after: float = 0.0) -> None:
    if after:
        await bursar.sleep(after)
    raise ValueError("no")


def kinds(*tasks) -> list[str]:
    """How they ended."""
    return [task.outcome.kind.name.lower() for task in tasks]
