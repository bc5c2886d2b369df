"""`ThreadControl`: lets a task pause, stop and bill its function on a thread, at the function's checkpoints.

A function with a parameter annotated `Checkpoint` calls the checkpoint now and then. Each call reports progress, waits
while the task is paused, raises `Cancelled` once the task is asked to stop, and pays. Between two calls nothing stops
the thread.

One side of the control runs in the thread, the other in the loop. The thread's side never touches the law: it posts
what it has to say (`Pump.post`), and waits until the loop rings. The loop's side never waits for the thread. The thread
gets its ops in slices. It counts its ops itself, and asks for the next slice only when one is used up. At the end it
gives back what it has not used. If nothing limits the ops, it asks for nothing.

CHECKPOINT-1  after the function was asked to stop, every checkpoint raises `Cancelled`; a pause never hides that
CHECKPOINT-2  a thread that reports that it is paused stays paused until it is resumed or asked to stop
CHECKPOINT-3  when the task continues, it has paid for exactly what its function used: the slices, less the unused rest
CHECKPOINT-4  the trace records at which checkpoint, by number, a thread responded to a request; a replay responds there

Rejected: raising `Cancelled` in the thread at any moment (`PyThreadState_SetAsyncExc`). It can be raised inside a
`finally` block, while a lock is taken, or during an import. No function can be written to be safe from that.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bursar.drive import cpu_time
from bursar.errors import Cancelled, ScopeMisuse
from bursar.law.budget import COMPONENTS, CPU_NS, OPS
from bursar.law.cancel import CancelReason
from bursar.law.pool import measures
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.backend import Task
    from bursar.drive.pump import Pump

SLICE: Final = 64  # ops per slice; at most so many are unused while other tasks of the purse may need them


def _ops(amount: int) -> tuple[int, ...]:
    """A row of costs with `amount` ops and nothing else."""
    return tuple(amount if component == OPS else 0 for component in range(len(COMPONENTS)))


class Turns(Protocol):
    """The pool, as a `ThreadControl` sees it: decides when the thread may work."""

    def ring(self, control: ThreadControl) -> None:
        """In the loop: let the waiting thread continue."""
        ...

    def rest(self, control: ThreadControl) -> None:
        """In the thread: wait until the loop rings."""
        ...

    def give_way(self, control: ThreadControl) -> None:
        """In the thread: let the loop run, if it depends on this thread for that."""
        ...

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        """In the thread: post a question. The loop answers it, and then rings."""
        ...


class ThreadControl:
    """The connection between one task and its function on a thread."""

    __slots__ = (
        "_answered",
        "_limited",
        "_measured",
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
        "measured_ns",
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
        self._on_paused = on_paused  # called in the loop when the thread has paused
        self.label = label  # the task and its poll, as the trace names them
        self.bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        # what the function reports
        self.progress: float | None = None
        self.message = ""
        self.number = 0  # checkpoints so far
        self.over = False  # the function has returned
        # what the function is asked
        self.asked = False  # whether it was asked anything: the only field that every checkpoint reads
        self.reason: CancelReason | None = None  # why it is to stop
        self.pausing = False
        self.pauses = 0  # how often it was asked to pause
        self.stopped_at = -1  # the number of the checkpoint that first raised `Cancelled`
        # what the function pays
        self._limited = task.pools[OPS].left is not None
        self._measured = measures(task.pools)
        self.measured_ns = 0  # the processor time of the thread, when it was last charged
        self._prepaid = 0
        self.used = 0
        self._refusal: BaseException | None = None  # the error, if the last request for a slice was refused
        self._answered = True
        self._thread = 0
        self._reported_pause = 0  # the number of the last pause that the thread reported
        self._recorded_responses: dict[int, str] | None = None if pump.live else pump.recorded_responses(label)

    @property
    def report(self) -> str:
        """The progress and the message that the function last reported."""
        percent = f"{self.progress:.0%}" if self.progress is not None else ""
        return ", ".join(part for part in (percent, self.message) if part)

    @property
    def unbilled_ops(self) -> int:
        """The ops that were used and are not paid; negative: paid in advance."""
        return self.used - self._prepaid

    # ---- in the thread

    def begin(self) -> None:
        """The function begins, in this thread."""
        self._thread = threading.get_ident()
        self.measured_ns = cpu_time.thread_time_ns()

    def point(self, progress: float | None, message: str | None) -> None:
        """One checkpoint."""
        if self.over or self._thread != threading.get_ident():
            self._refuse()
        self.number += 1
        if progress is not None:
            if progress != progress:
                raise ValueError(f"task {self._task.name!r}: checkpoint(progress={progress!r}): not a number")
            self.progress = min(max(progress, 0.0), 1.0)
        if message is not None:
            self.message = brief(message)
        self._turns.give_way(self)
        if self.asked or self._recorded_responses is not None:
            self._respond()
        if self._measured:
            self._pay_cpu()
        self.spend(1)

    def spend(self, ops: int) -> None:
        """Pay for `ops` operations, all or none of them. Raises `BudgetExceeded`."""
        if self._limited and self.used + ops > self._prepaid:
            self._ask_for(ops)
        self.used += ops

    def charge(self, ops: int) -> None:
        """Like `spend`, but checks the thread and the argument first."""
        if type(ops) is not int or ops < 0:
            raise ValueError(f"task {self._task.name!r}: checkpoint.charge({ops!r}): give a whole number, 0 or more")
        if self.over or self._thread != threading.get_ident():
            self._refuse()
        self.spend(ops)

    def _refuse(self) -> None:
        why = "after it had ended" if self.over else "in another thread than its own; use it where the function runs"
        raise ScopeMisuse(f"the checkpoint of task {self._task.name!r} was used {why}")

    def _respond(self) -> None:
        """Wait while paused, and raise `Cancelled` if asked to stop (CHECKPOINT-1, CHECKPOINT-2)."""
        planned = self._recorded_responses.get(self.number) if self._recorded_responses is not None else ""
        if planned is None and self.stopped_at < 0:
            return  # CHECKPOINT-4: in the recorded run, the request came later than this checkpoint
        while planned and self.reason is None and not self.pausing:
            self._turns.rest(self)  # CHECKPOINT-4: the recorded run responded here
        while self.pausing and self.reason is None:
            self.report_paused()
            self._turns.rest(self)
        if self.reason is not None and (planned != "paused" or self._recorded_responses is None):
            self.stopped_at = self.number if self.stopped_at < 0 else self.stopped_at
            raise Cancelled(self.reason)

    def report_paused(self) -> None:
        """Report that the function is paused: at a checkpoint, or before it has begun."""
        if self._reported_pause != self.pauses:
            self._reported_pause = self.pauses
            self._pump.post(f"paused {self.label} {self.number}", partial(self._thread_paused, self.pauses))

    def _ask_for(self, ops: int) -> None:
        """The slice is used up: ask the loop for the next one, and wait for the answer."""
        self._ask(f"charge {self.label} {ops}", partial(self._grant, ops))

    def _pay_cpu(self) -> None:
        """Let the loop charge the processor time since the last checkpoint, and wait for the answer."""
        now_ns = cpu_time.thread_time_ns()
        used_ns, self.measured_ns = now_ns - self.measured_ns, now_ns
        self._ask(f"cpu {self.label} {self.number}", partial(self._charge_cpu, used_ns))

    def _ask(self, label: str, answer: Callable[[], None]) -> None:
        self._answered = False
        self._turns.ask(label, answer)
        while not self._answered:
            self._turns.rest(self)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    # ---- in the loop

    def pause(self) -> None:
        """Ask the function to pause at its next checkpoint."""
        self.pausing = self.asked = True
        self.pauses += 1
        if self._recorded_responses is not None:
            self._turns.ring(self)

    def resume(self) -> None:
        self.pausing = False
        self.asked = self.reason is not None
        self._turns.ring(self)

    def stop(self, reason: CancelReason) -> None:
        """Ask the function to stop: at its next checkpoint, or at once if it is paused at one."""
        self.reason = reason
        self.pausing, self.asked = False, True
        self._turns.ring(self)

    def return_unused(self) -> None:
        """The function has returned: refund the unused rest of its slice (CHECKPOINT-3)."""
        self.over = True
        if self.used != self._prepaid:
            self._pump.kernel.charge_difference(self._task, _ops(self.used - self._prepaid))

    def _thread_paused(self, pause: int) -> None:
        if self.pausing and pause == self.pauses and not self._pump.over:
            self._on_paused()

    def _charge_cpu(self, used_ns: int) -> None:
        kernel, task = self._pump.kernel, self._task
        if self._pump.over:
            self._refusal = Cancelled(self.reason)
        else:
            kernel.runtime.driver.charge_cpu(task, used_ns)
            if task.cpu_due:
                self._refusal = kernel.shortage(task, CPU_NS, ((CPU_NS, task.cpu_due),))
        self._answered = True
        self._turns.ring(self)

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
