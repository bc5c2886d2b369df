"""`bursar trace …`: show trace files, check them, compare two of them, and export them for other tools.

Exit codes: 0 the command succeeded; 1 a trace is not valid, or two traces differ; 2 a file cannot be read as a trace,
or the command is not possible as written. If a file ends too early, the command shows or exports the whole records,
and the exit code is 2.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer
from rich.console import Console
from rich.text import Text

from bursar.cli import EXIT_FAILED, EXIT_REFUSED, complain, refuse, same_file
from bursar.cli.console import make_console
from bursar.errors import BursarError, TraceError
from bursar.evidence import diff as differing
from bursar.evidence.export import FORMATS
from bursar.evidence.verify import verify as verify_law
from bursar.text import counted
from bursar.trace.events import KINDS, Event, fingerprint
from bursar.trace.reader import Trace

trace = typer.Typer(help="Show, check, compare and export the traces of `bursar run --record`.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="A trace file.", show_default=False)]


@contextmanager
def readable() -> Generator[None]:
    """End the command if a file cannot be read as a trace to its end."""
    try:
        yield
    except TraceError as error:
        refuse(str(error))


# ---- show


@trace.command()
def show(
    file: File,
    event: Annotated[list[str] | None, typer.Option(help="Show only events with this name. May be repeated.")] = None,
    task: Annotated[int | None, typer.Option(help="Show only events of the task with this number.")] = None,
    first: Annotated[int, typer.Option("--from", min=0, help="Begin with the event of this number.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most this number of events.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with every field.")] = False,
) -> None:
    """Print the events of a trace, one per line."""
    names = known_names(event or [])
    with readable():
        found = Trace(file)
        chosen = (
            event
            for event in found.events()
            if event.number >= first and (not names or event.name in names) and task in (None, event.task_id)
        )
        if as_json:
            for event_ in islice(chosen, limit):
                print(json.dumps({"number": event_.number, **event_.as_dict()}))
        else:
            print_events(found, islice(chosen, limit))


def known_names(names: list[str]) -> set[str]:
    for name in names:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=3, cutoff=0.3)
            advice = f"did you mean {' or '.join(near)}?" if near else "`bursar trace show FILE` prints the names"
            refuse(f"there is no event {name!r}; {advice}")
    return set(names)


def print_events(found: Trace, events: Iterator[Event]) -> None:
    console = make_console(plain=False)
    print_line(console, title(found))
    print_line(console, Text(f"{'event':>8} {'seconds':>12} {'turn.batch':>10} {'decision':>8}  lane", style="bold"))
    for event in events:
        print_line(console, line(event))


def print_line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)


def title(found: Trace) -> Text:
    header = found.header
    told = f"seed {header['seed']}, {counted(header['workers'], 'worker')}, profile {header['profile']}"
    return Text.assemble((str(found.path), "bold cyan"), f": {told}, host {header['host']}, clock {header['clock']}")


def line(event: Event) -> Text:
    """One event: when it happened, and what happened."""
    place = f"{event.number:>8} {event.now_ns / 1e9:>12.6f} {f'{event.host_turn_id}.{event.microtask_batch_id}':>10}"
    style = "red" if event.error_class else "cyan" if event.name == "scheduler_step_decision" else ""
    return Text.assemble((f"{place} {event.decision_seq:>8}  {event.lane:<7} ", "dim"), (str(event), style))


# ---- verify


@trace.command()
def verify(
    files: Annotated[list[Path], typer.Argument(help="Trace files.", show_default=False)],
    strict: Annotated[
        bool, typer.Option("--strict", help="Also derive every decision again and compare it with the recorded one.")
    ] = False,
) -> None:
    """Check that traces are complete, that their records are consistent and that their decision chains are right."""
    raise SystemExit(max(verified(file, strict) for file in files))


def verified(file: Path, strict: bool) -> int:
    """Check one file, print the result, and return the exit code."""
    try:
        found = Trace(file)
        told = summary(found)
        fault = fault_by_law(found) if strict else fault_in_chain(found)  # the strict check includes the chain
    except TraceError as error:
        complain(str(error))
        return EXIT_REFUSED
    good = "valid, and every decision follows the law" if strict else "valid"
    print(f"{file}: not valid: {fault}" if fault else f"{file}: {good}: {told}")
    return EXIT_FAILED if fault else 0


def fault_in_chain(found: Trace) -> str:
    event = found.broken_link()
    if event is None:
        return ""
    return (
        f"the hash {event.decision_hash:016x} of decision {event.decision_seq:,} (event {event.number:,}) "
        "does not follow from the decision and the hash before it"
    )


def fault_by_law(found: Trace) -> str:
    """The first fault of the strict check, or "". The file was read to its end before, so an error is a fault of its
    content."""
    try:
        verify_law(found)
    except TraceError as error:
        return str(error).removeprefix(f"{found.path}: ")
    except BursarError as error:
        refuse(str(error))
    return ""


def summary(found: Trace) -> str:
    """The number of events and decisions, and the two fingerprints."""
    newest: deque[Event] = deque(maxlen=1)

    def seen(event: Event) -> Event:
        newest.append(event)
        return event

    essence = fingerprint(map(seen, found.events()))
    if not newest:
        return "no events"
    (last,) = newest
    return (
        f"{counted(last.number + 1, 'event')}, {counted(last.decision_seq, 'decision')}, "
        f"fingerprint {last.decision_hash:016x}, fingerprint of the events {essence}"
    )


# ---- diff


@trace.command()
def diff(
    left: Annotated[Path, typer.Argument(metavar="A", help="A trace file.", show_default=False)],
    right: Annotated[Path, typer.Argument(metavar="B", help="Another trace file.", show_default=False)],
    host: Annotated[
        bool, typer.Option("--host", help="Also compare times, turns and everything else that comes from the host.")
    ] = False,
) -> None:
    """Show the first difference of two traces. Without --host, what comes from the host is not compared."""
    with readable():
        view = differing.EVERYTHING if host else differing.LAW
        found = differing.diff(Trace(left), Trace(right), view)
    if found is None:
        print(f"{left} and {right} are the same{'' if host else '; what comes from the host was not compared'}")
        return
    print_difference(make_console(plain=False), str(left), str(right), found)
    raise SystemExit(EXIT_FAILED)


def print_difference(console: Console, left: str, right: str, found: differing.Difference) -> None:
    for name, (ours, theirs) in found.header.items():
        print_line(console, Text(f"header: {name} is {ours!r} in {left} and {theirs!r} in {right}"))
    if not (found.left or found.right):
        print_line(console, Text(f"the events are the same, {found.same:,} compared"))
        return
    print_line(
        console, Text(f"the first {counted(found.same, 'event')} compared are the same; then the traces differ:")
    )
    for event in found.before:
        print_line(console, Text.assemble("  ", line(event)))
    for sign, style, name, events in (("-", "red", left, found.left), ("+", "green", right, found.right)):
        print_line(console, Text(f"{sign} {name}", style=style))
        for event in events:
            print_line(console, Text.assemble((f"{sign} ", style), line(event)))
        if not events:
            print_line(console, Text(f"{sign} has no more events", style=style))


# ---- export


@trace.command()
def export(
    file: File,
    format: Annotated[Literal["perfetto", "jsonl"], typer.Option("--format", help="The format of the output.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; by default standard output.", show_default=False),
    ] = None,
) -> None:
    """Write a trace in the format of ui.perfetto.dev, or as JSON lines."""
    if output is not None and same_file(output, file):
        refuse(f"{output}: the output would overwrite the trace; choose another file")
    with readable():
        found = Trace(file)
        with opened(output) as out:
            FORMATS[format](found, out)


@contextmanager
def opened(output: Path | None) -> Generator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8") as out:
            yield out
    except OSError as error:
        refuse(f"{output}: cannot be written: {error.strerror or error}")
