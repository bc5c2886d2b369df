"""Cases on the kernel of this process, for comparison with the same cases on the other: see `test_kernels`.

    BURSAR_KERNEL=python .venv/bin/python tests/parity/kernels.py brief KIND FIRST LAST   what programs came to
    BURSAR_KERNEL=python .venv/bin/python tests/parity/kernels.py record FOLDER CASE ...  leaves a trace of each case
    BURSAR_KERNEL=native .venv/bin/python tests/parity/kernels.py check FOLDER CASE ...   what is wrong with the traces

A case is a generated program ("program 17"), one with named counters ("named 17") or gates ("flow 17"), a scenario
("timer_race"), a fixture ("fixture sched.browser.…"), or a file of examples/ ("example hello"). `check` verifies every
trace strictly and runs its program on it again; a fixture's script is no program that a trace could drive, so its trace
is only verified.

Rejected: one process that has both kernels. Channels, locks and nurseries of the face are in C as well where the kernel
is, and that is chosen once, before the import; what users run is a process with one kernel.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from parity import fixture, running  # noqa: E402
from parity.script import Stage  # noqa: E402
from support import admission_programs  # noqa: E402
from support.evidence import KINDS, Recorder, Trace, replay, verify  # noqa: E402
from support.hosts import VirtualHost  # noqa: E402

from bursar import BursarError, Runtime  # noqa: E402
from bursar.cli import build_app  # noqa: E402

FIXTURE = "fixture "
FLOW = "flow "
EXAMPLE = "example "

# ---- what programs came to


class Digest:
    """The observer that hashes every field of every event, those of the host too: the virtual one repeats itself."""

    def __init__(self, runtime: Runtime) -> None:
        self._kernel = runtime.kernel
        self._hash = hashlib.blake2b(digest_size=8)
        self.events = 0
        self._kernel.observe(self)

    def __call__(self, name: str, task: Any, detail: Any) -> None:
        described = KINDS[name].describe(self._kernel, task, detail)
        self._hash.update(repr((name, described)).encode("utf-8", "surrogatepass"))
        self.events += 1

    def __str__(self) -> str:
        return f"{self.events} events {self._hash.hexdigest()}"


def brief(case: str) -> dict[str, Any]:
    """What of a generated program must be the same on both kernels, watched and unwatched."""
    (watched, main), (unwatched, main_again) = (running.prepare(case, None, "virtual") for _ in range(2))
    digest = Digest(watched)
    return {
        "ending": ended(watched, main),
        "fingerprint": watched.fingerprint,
        "events": str(digest),
        "statistics": told(watched),
        "unwatched": [ended(unwatched, main_again), unwatched.fingerprint, told(unwatched)],
    }


def ended(runtime: Runtime, main: running.Main) -> str:
    """What the program returned, or the error that it failed with, in its own words."""
    try:
        return f"returned {runtime.run(main)}"
    except running.ENDINGS as error:
        return f"{type(error).__name__}: {error}"


def told(runtime: Runtime) -> str:
    """A hash over what the runtime tells of itself at the end: its statistics, and its reports in their order."""
    text = f"{runtime.statistics()}\n{runtime.reports}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# ---- traces


def trace_of(folder: Path, case: str) -> Path:
    return folder / f"{case.replace(' ', '_')}.trace"


def prepare(case: str) -> tuple[Runtime, running.Main]:
    """A runtime for the case, and its main function."""
    if case.startswith(FLOW):
        number = int(case.removeprefix(FLOW))
        return admission_programs.runtime_for(number), admission_programs.GateTotalsCore(Random(number)).main
    return running.prepare(case, VirtualHost(), "virtual")


def record(case: str, path: Path) -> None:
    """Run a case and leave its trace at `path`."""
    if case.startswith(FIXTURE):
        script = fixture.load(fixture.path_of(case.removeprefix(FIXTURE)))
        stage = Stage(script["seed"], script["workers"], script["burst_limit"], record=path)
        stage.begin()
        stage.play(script["script"])
    elif case.startswith(EXAMPLE):
        failed = command("run", f"--record={path}", *arguments_of(case))
        assert not failed, failed  # else the trace is one of something else than the example
    else:
        runtime, main = prepare(case)
        recorder = Recorder(runtime.kernel, path, runtime.header())
        runtime.kernel.observe(recorder)
        running.result_of(lambda: runtime.run(main))
        recorder.close({"error": ""})


def check(case: str, path: Path) -> str:
    """Verify the trace by the law and run its program on it again; what is wrong, or nothing."""
    if case.startswith(EXAMPLE):
        return command("trace", "verify", "--strict", str(path)) or command("replay", str(path))
    try:
        verify(Trace(path))
        if not case.startswith(FIXTURE):
            _, main = prepare(case)
            replay(Trace(path), main)
    except BursarError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def arguments_of(case: str) -> list[str]:
    """The command line of an example, as its opening text has it, without `bursar run`."""
    text = (ROOT / "examples" / f"{case.removeprefix(EXAMPLE)}.py").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("    bursar run examples/"))
    _, _, file, *options = shlex.split(line)
    return [str(ROOT / file), *options]


def command(*args: str) -> str:
    """Carry out a `bursar` command in this process; what it said, if it failed."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            build_app()(list(args), standalone_mode=False)
        except SystemExit as end:
            return f"{' '.join(args)}: exit code {end.code}: {out.getvalue()}" if end.code else ""
    return ""


def main(verb: str, *args: str) -> None:
    if verb == "brief":
        kind, first, last = args[0], *map(int, args[1:])
        print(json.dumps({number: brief(f"{kind} {number}") for number in range(first, last)}))
        return
    folder, cases = Path(args[0]), args[1:]
    if verb == "record":
        for case in cases:
            record(case, trace_of(folder, case))
        return
    print(json.dumps({case: wrong for case in cases if (wrong := check(case, trace_of(folder, case)))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
