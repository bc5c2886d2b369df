"""The output of a run for logs and programs: lines of text, or one JSON object per line. `live.py` is the view in a
terminal.

A transition is in the journal before its line is written, and each line is flushed at once. So the output never shows a
transition that the journal does not have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from bursar.workflow.references import keep

if TYPE_CHECKING:
    from bursar.workflow.events import Event
    from bursar.workflow.execute import Execution
    from bursar.workflow.summary import Report


INDENT: Final = len("    0.000 s  ")  # of the further lines of an event


class Silent:
    """No output; the base class of the views."""

    def on_event(self, event: Event) -> None:
        """Called for each event."""

    def tick(self, run: Execution) -> None:
        """Called a few times a second."""

    def finish(self, report: Report) -> None:
        """Called with the report, when the run has ended."""

    def close(self) -> None:
        """Called last, also if the run did not end."""


class Plain(Silent):
    """One line for each event."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def on_event(self, event: Event) -> None:
        self._line(f"{event.at:9.3f} s  {words(event)}".replace("\n", "\n" + " " * INDENT))

    def finish(self, report: Report) -> None:
        self._line(str(report))

    def _line(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class Json(Silent):
    """One JSON object per line; the last one is the summary."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def on_event(self, event: Event) -> None:
        found: dict[str, Any] = {"event": event.kind, "at": round(event.at, 6)}
        if event.task:
            found["task"] = event.task
        if event.attempt:
            found["attempt"] = event.attempt
        if event.detail:
            found["detail"] = event.detail
        if event.traceback:
            found["traceback"] = event.traceback
        if event.kind in ("ok", "failed", "cancelled"):
            found["seconds"] = round(event.seconds, 6)
        if event.kind == "ok":
            kept = keep(event.value)
            found["result"] = kept.value if kept.json is not None else None
        if event.kind == "output":
            found["stream"] = event.value
        self._line(found)

    def finish(self, report: Report) -> None:
        self._line({"event": "summary", **report.as_dict()})

    def _line(self, found: dict[str, Any]) -> None:
        print(json.dumps(found, ensure_ascii=False), file=self._out, flush=True)


def words(event: Event) -> str:
    """An event as a sentence."""
    task, detail = event.task, event.detail
    attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    match event.kind:
        case "started":
            return f"{task} started{attempt}"
        case "ok":
            return f"{task} done after {event.seconds:.3f} s{attempt}"
        case "failed":
            below = f"\n{event.traceback}" if event.traceback else ""
            return f"{task} failed after {event.seconds:.3f} s{attempt}: {detail}{below}"
        case "retry":
            return f"{task} will be tried again, {detail}"
        case "cancelled" | "dropped":
            return f"{task} {event.kind}: {detail}"
        case "output":
            return f"{task} | {detail}"
        case "again":
            return f"{task} runs again: {detail}"
        case "lost":
            return f"{task} {detail}{attempt}"
        case _:
            return f"{task}: {detail}" if task else detail
