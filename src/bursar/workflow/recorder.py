"""Passes what happens in a run to the journal and to the listener, and notes which of them has failed.

WORKFLOW-3  a journal that cannot be written stops the run: no step runs without a record

A listener that fails, for example because a pipe is closed, is not called again, and the run continues: what happened
is in the journal and in the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bursar.errors import JournalError
from bursar.text import storable
from bursar.workflow.events import Event, Listener
from bursar.workflow.journal import Journal

if TYPE_CHECKING:
    from bursar.workflow.execute import Execution


class Recorder:
    """The journal and the listener of one session."""

    def __init__(self, journal: Journal | None, listener: Listener | None) -> None:
        self.journal = journal
        self.listener = listener  # None after it has failed
        self.listener_error: Exception | None = None
        self.broken: JournalError | None = None  # why the journal cannot be written
        self.on_broken: Callable[[], None] = lambda: None  # stops the run
        self._began = time.monotonic()

    def begin(self) -> None:
        """The session begins now."""
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    def write(self, transition: Callable[[Journal], Any]) -> Any:
        """Write a transition into the journal, if there is one. WORKFLOW-3: an error stops the run."""
        if self.journal is None:
            return None
        if self.broken is not None:
            raise self.broken
        try:
            return transition(self.journal)
        except JournalError as error:
            self.broken = error
            self.on_broken()
            raise

    def publish(
        self,
        kind: str,
        task: str = "",
        attempt: int = 0,
        detail: str = "",
        seconds: float = 0.0,
        value: Any = None,
        traceback: str = "",
    ) -> None:
        """Pass an event to the listener."""
        event = Event(self.now(), kind, task, attempt, storable(detail), seconds, value, traceback)
        self._call_listener(lambda listener: listener.on_event(event))

    def tick(self, run: Execution) -> None:
        """Let the listener look at the whole run."""
        self._call_listener(lambda listener: listener.tick(run))

    def _call_listener(self, call: Callable[[Listener], None]) -> None:
        if self.listener is not None:
            try:
                call(self.listener)
            except Exception as error:
                self.listener = None
                self.listener_error = error
