"""`bursar replay TRACE [FILE]`: run a recorded program again on what its trace says came from outside.

The trace names the program's file, its arguments and the digest of the file. A file that has moved can be named on the
command line. One that has changed is refused, unless it is forced: that a change makes no difference is something
that one may want to see, but nobody should see it by mistake.

Exit codes: 0 it did the same again (also if what it did was to fail), 1 it did something else, 2 the trace or the
program cannot be used.
"""

from __future__ import annotations

import sys
from os.path import isfile  # unlike `Path.is_file`, it takes a name that cannot be one for no file
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bursar.cli import EXIT_FAILED, EXIT_INTERRUPTED, complain, refuse
from bursar.cli.run import load_main
from bursar.errors import BursarError, Divergence
from bursar.text import counted
from bursar.trace.reader import Trace

if TYPE_CHECKING:
    from bursar.evidence.replay.replay import Replayed


def replay(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of `bursar run`.", show_default=False)],
    program: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The program, if it is not where it was.", show_default=False),
    ] = None,
    args: Annotated[
        list[str] | None, typer.Argument(help="Strings handed to main, instead of the recorded ones.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the program is not what was recorded.")] = False,
) -> None:
    """Run a recorded program again on its recorded inputs, and check that it does the same."""
    from bursar.evidence.replay.replay import replay as play  # no other command needs it
    from bursar.evidence.replay.replay import require_program

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
        refuse(f"{trace.path}: the trace does not say which file its program is in; name it after the trace")
    if not isinstance(arguments, list) or not all(isinstance(a, str) for a in cast("list[Any]", arguments)):
        refuse(f"{trace.path}: the trace does not say what arguments its program had")
    path = given or Path(str(named))
    if not isfile(path):
        refuse(f"{path}: the program is not there; name its file after the trace")
    return path, cast("list[str]", arguments)


def verdict(done: Replayed) -> str:
    ended = "" if done.error is None else f", and ended with {type(done.error).__name__} as before"
    return f"did the same again: {counted(done.events, 'event')}, fingerprint {done.fingerprint}{ended}"
