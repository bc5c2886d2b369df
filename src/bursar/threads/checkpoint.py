"""`Checkpoint`: what a plain function that runs on a thread holds of its task, and the line behind it.

A function with a parameter that is annotated `Checkpoint` calls it now and then. There it says how far it has come,
stands still while it is paused, ends by `Cancelled` once it is asked to stop, and pays. Between two such places nothing
can stop a thread, and nothing tries to.

The *line* has two ends. The thread's end never touches the law: what it has to say it posts (`Pump.post`), and what it
waits for it is told by a bell. The loop's end never waits for the thread. Money comes in slices: the thread counts its
operations itself, and only when a slice is used up it asks for the next; what it has not used is given back at the end.
Where nothing limits the operations there is nothing to ask for.

CHECKPOINT-1  after the function was asked to stop, every checkpoint raises `Cancelled`; a pause never hides that
CHECKPOINT-2  a thread that says that it stands does stand, until it is resumed or asked to stop
CHECKPOINT-3  what a function pays is in the books when its task goes on: prepaid slices, less what was not used
CHECKPOINT-4  where a thread heeded a request is on record, by the number of the checkpoint, and a replay heeds it there

Rejected: raising `Cancelled` in the thread wherever it stands (`PyThreadState_SetAsyncExc`). It strikes in the middle
of a `finally`, of a lock, of an import, and no function can be written so that it survives that.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bursar.errors import Cancelled, ScopeMisuse
from bursar.law.budget import COMPONENTS, OPS
from bursar.law.cancel import CancelReason
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.backend import Task
    from bursar.drive.pump import Pump

SLICE: Final = 64  # ops that a thread is lent at a time: so much at most is kept from the others who share its purse


def _ops(amount: int) -> tuple[int, ...]:
    """So many operations and nothing else, by component."""
    return tuple(amount if component == OPS else 0 for component in range(len(COMPONENTS)))


class Turns(Protocol):
    """Who decides when the thread at the end of a line may work: the pool."""

    def ring(self, control: ThreadControl) -> None:
        """In the loop: what the thread waits for has come."""
        ...

    def rest(self, control: ThreadControl) -> None:
        """In the thread: wait for the bell."""
        ...

    def give_way(self, control: ThreadControl) -> None:
        """In the thread: let the loop have a turn, if it needs one from here."""
        ...

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        """In the thread: have a question answered by the loop, and the line rung."""
        ...


class ThreadControl:
    """The line between one task and the function that runs for it."""

    __slots__ = (
        "_answered",
        "_limited",
        "_on_paused",
        "_prepaid",
        "_pump",
        "_recorded_responses",
        "_refusal",
        "_reported_pause",
        "_task",
        "_thread",
        "_turns",
        "asked",
        "bell",
        "label",
        "message",
        "number",
        "over",
        "pauses",
        "pausing",
        "progress",
        "reason",
        "stopped_at",
        "used",
    )

    def __init__(self, pump: Pump, task: Task, label: str, turns: Turns, on_paused: Callable[[], None]) -> None:
        self._pump = pump
        self._task = task
        self._turns = turns
        self._on_paused = on_paused  # called in the loop when the thread stands
        self.label = label  # the task and its poll, as they are named in the evidence
        self.bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        # what the function says
        self.progress: float | None = None
        self.message = ""
        self.number = 0  # checkpoints so far
        self.over = False  # the function has returned
        # what it is asked
        self.asked = False  # anything at all: the one thing that every checkpoint looks at
        self.reason: CancelReason | None = None  # why it is to stop
        self.pausing = False
        self.pauses = 0  # how often it was asked to pause
        self.stopped_at = -1  # the checkpoint where it first heard that it is to stop
        # what it pays
        self._limited = task.pools[OPS].left is not None
        self._prepaid = 0
        self.used = 0
        self._refusal: BaseException | None = None  # the answer to the last question for money, if it was no
        self._answered = True
        self._thread = 0
        self._reported_pause = 0  # the last pause of which the thread said that it stands
        self._recorded_responses: dict[int, str] | None = None if pump.live else pump.recorded_responses(label)

    # ---- in the thread

    def begin(self) -> None:
        """The function begins, in this thread."""
        self._thread = threading.get_ident()

    def point(self, progress: float | None, message: str | None) -> None:
        """One checkpoint."""
        if self.over or self._thread != threading.get_ident():
            self._refuse()
        self.number += 1
        if progress is not None:
            if progress != progress:
                raise ValueError(f"task {self._task.name!r}: checkpoint(progress={progress!r}) says nothing")
            self.progress = min(max(progress, 0.0), 1.0)
        if message is not None:
            self.message = brief(message)
        self._turns.give_way(self)
        if self.asked or self._recorded_responses is not None:
            self._respond()
        self.spend(1)

    def spend(self, ops: int) -> None:
        """Pay for so many operations, or raise `BudgetExceeded`; whole or not at all."""
        if self._limited and self.used + ops > self._prepaid:
            self._ask_for(ops)
        self.used += ops

    def charge(self, ops: int) -> None:
        """Like `spend`, for whoever is not known."""
        if type(ops) is not int or ops < 0:
            raise ValueError(f"task {self._task.name!r}: checkpoint.charge({ops!r}): give a whole number, 0 or more")
        if self.over or self._thread != threading.get_ident():
            self._refuse()
        self.spend(ops)

    def _refuse(self) -> None:
        why = "after it had ended" if self.over else "in another thread than its own; use it where the function runs"
        raise ScopeMisuse(f"the checkpoint of task {self._task.name!r} was used {why}")

    def _respond(self) -> None:
        """Stand while paused, end when asked to (CHECKPOINT-1, CHECKPOINT-2)."""
        planned = self._recorded_responses.get(self.number) if self._recorded_responses is not None else ""
        if planned is None and self.stopped_at < 0:
            return  # CHECKPOINT-4: then, it had heard of nothing yet
        while planned and self.reason is None and not self.pausing:
            self._turns.rest(self)  # CHECKPOINT-4: then, it had heard of it here
        while self.pausing and self.reason is None:
            self.report_paused()
            self._turns.rest(self)
        if self.reason is not None and (planned != "paused" or self._recorded_responses is None):
            self.stopped_at = self.number if self.stopped_at < 0 else self.stopped_at
            raise Cancelled(self.reason)

    def report_paused(self) -> None:
        """Say that it stands: at a checkpoint, or before it has begun."""
        if self._reported_pause != self.pauses:
            self._reported_pause = self.pauses
            self._pump.post(f"paused {self.label} {self.number}", partial(self._thread_paused, self.pauses))

    def _ask_for(self, ops: int) -> None:
        """The slice is used up: a round trip to the law."""
        self._answered = False
        self._turns.ask(f"charge {self.label} {ops}", partial(self._grant, ops))
        while not self._answered:
            self._turns.rest(self)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    # ---- in the loop

    def pause(self) -> None:
        """Stand at the next checkpoint."""
        self.pausing = self.asked = True
        self.pauses += 1
        if self._recorded_responses is not None:
            self._turns.ring(self)

    def resume(self) -> None:
        self.pausing = False
        self.asked = self.reason is not None
        self._turns.ring(self)

    def stop(self, reason: CancelReason) -> None:
        """End at the next checkpoint, also where it stands now."""
        self.reason = reason
        self.pausing, self.asked = False, True
        self._turns.ring(self)

    def return_unused(self) -> None:
        """The function has returned: bring the books to what it has used (CHECKPOINT-3)."""
        self.over = True
        if self.used != self._prepaid:
            self._pump.kernel.charge_difference(self._task, _ops(self.used - self._prepaid))

    def _thread_paused(self, pause: int) -> None:
        if self.pausing and pause == self.pauses and not self._pump.over:
            self._on_paused()

    def _grant(self, ops: int) -> None:
        kernel, task = self._pump.kernel, self._task
        if self._pump.over:
            self._refusal = Cancelled(self.reason)
        else:
            lacking, left = self.used + ops - self._prepaid, task.pools[OPS].left
            granted = max(lacking, SLICE) if left is None else min(max(lacking, SLICE), left)
            if granted < lacking:
                self._refusal = kernel.shortage(task, OPS, ((OPS, lacking),))
            else:
                kernel.charge_difference(task, _ops(granted))
                self._prepaid += granted
        self._answered = True
        self._turns.ring(self)
