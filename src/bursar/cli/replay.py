"""`bursar replay TRACE [FILE]`: run a recorded program again on its recorded inputs.

The trace has the name of the program's file, its arguments and the digest of the file. If the file has moved, the
command line names it. The command refuses a file that has changed, because a replay of another program proves nothing.
With `--force` it runs the file: a user may want to see that a change makes no difference.

Exit codes: 0 the program did the same again, even if it failed again; 1 it did something else; 2 the trace or the
program cannot be used.
"""

from __future__ import annotations

import sys
from os.path import isfile  # unlike `Path.is_file`, it returns False for a name that no file can have
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from bursar.cli import EXIT_FAILED, EXIT_INTERRUPTED, complain, refuse
from bursar.cli.run import load_main
from bursar.errors import BursarError, Divergence
from bursar.evidence.replay import Replayed
from bursar.evidence.replay import replay as play
from bursar.evidence.replay.replay_runtime import require_program
from bursar.text import counted
from bursar.trace.reader import Trace


def replay(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of `bursar run`.", show_default=False)],
    program: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The program, if its file has moved.", show_default=False),
    ] = None,
    args: Annotated[
        list[str] | None, typer.Argument(help="Strings passed to main, instead of the recorded arguments.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replay even if the program has changed since.")] = False,
) -> None:
    """Run a recorded program again on its recorded inputs, and check that it does the same."""
    try:
        trace = Trace(file)
        path, arguments = source(trace, program, args)
        if not force:
            require_program(trace, path)
        done = play(trace, load_main(path, arguments), *arguments)
    except Divergence as divergence:
        complain(str(divergence))
        raise SystemExit(EXIT_FAILED) from None
    except BursarError as error:
        refuse(str(error))
    except KeyboardInterrupt:
        complain("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    print(verdict(done), file=sys.stderr)


def source(trace: Trace, given: Path | None, args: list[str] | None) -> tuple[Path, list[str]]:
    """The program's file and its arguments."""
    recorded = trace.header.get("program")
    origin = cast("dict[str, Any]", recorded) if isinstance(recorded, dict) else {}
    named, arguments = origin.get("file"), args or origin.get("args", [])
    if given is None and not isinstance(named, str):
        refuse(f"{trace.path}: the trace does not name the file of its program; name it: bursar replay TRACE FILE")
    if not isinstance(arguments, list) or not all(isinstance(a, str) for a in cast("list[Any]", arguments)):
        refuse(f"{trace.path}: the trace does not have the arguments of its program; name them after the file")
    path = given or Path(str(named))
    if not isfile(path):
        refuse(f"{path}: there is no such file; name the file of the program: bursar replay TRACE FILE")
    return path, cast("list[str]", arguments)


def verdict(done: Replayed) -> str:
    ended = "" if done.error is None else f", and ended with {type(done.error).__name__} as before"
    return f"did the same again: {counted(done.events, 'event')}, fingerprint {done.fingerprint}{ended}"
