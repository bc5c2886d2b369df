"""One run of one native function: the request that its task awaits, and the wait for messages of the engine.

The request hands the function to the engine (`fibers.mailbox`) and blocks the task until the function has ended. The
engine sends messages: the function has ended, is short of budget, or is paused. In most cases, the only message is the
function's value. Then the value is the answer of the request at once, and no text is made unless the run is recorded.

If the task is paused, the function is paused at the next point where it could wait. Until then the function runs, and
the task is not PAUSED. If the function ends first, or waits for budget, the task can be paused there too.

FIBERTASK-1  while the run goes on, a task ends only after its function has ended, unless the task is cut while the
    function waits for budget
FIBERTASK-2  what the function has spent + what it still holds = charged to the task; after its end it holds nothing
FIBERTASK-3  a replay runs no native function; the messages are answers of the host, from the trace
FIBERTASK-4  a task that waits for its function is PAUSED only while the function is paused; it is then no source of the
    pump

Rejected: killing a function that does not stop. It may hold a lock, or be in the middle of a change of shared data.
"""

from __future__ import annotations

from inspect import CO_COROUTINE
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, cast

from bursar.backend import Kernel, Task, Wait
from bursar.errors import BudgetExceeded, Cancelled, CapabilityDenied
from bursar.fibers.budget import FiberBudget, Portion
from bursar.fibers.end import CANCELLED, DONE, REFUSED, FiberEntry, as_symbol, result_of_message
from bursar.fibers.mailbox import PAUSED, SHORT, FiberCall, FiberMailbox, FiberMessage
from bursar.fibers.pointers import argument_at
from bursar.law.capability import CapExecutor, require
from bursar.law.costs import FREE, SYSCALL, Cost
from bursar.law.dispatch import Dispatch
from bursar.ops.pause import reached
from bursar.request import SUSPENDED, Request

if TYPE_CHECKING:
    from bursar.drive.pump import Pump
    from bursar.fibers.function import NativeFunction
    from bursar.law.admission.ticket import Ticket

BACKEND: Final = "native"
PAY: Final = 18  # our own kind of message: `Run` must be awaited again, to be billed
TO_PAY: Final = FiberMessage(0, PAY, 0, 0, 0, 0, 0, 0, 0)


class Run(FiberCall, Request[Any]):
    """One run of a native function. Each await of it pays, lets the function run on, and gives its value or the next
    message that is not a value."""

    __slots__ = (
        "_argument",
        "_counted",
        "_fiber_budget",
        "_fiber_mailbox",
        "_lacks",
        "_portion",
        "_pump",
        "_reported_pause",
        "address",
        "asked",
        "held",
        "keep",
        "kernel",
        "lives",
        "message",
        "pauses",
        "program",
        "stopping",
        "task_name",
        "wait",
    )

    def __init__(self, program: FiberEntry, argument: int | None, keep: object) -> None:
        self.program = program
        self.lives = False  # the function was started, and the message of its end was not delivered yet
        self.stopping = False  # the function gets no more budget: the task waits only for its end
        self.asked = False  # the function was asked to stop
        self.held = False  # the function was asked to pause, and not resumed
        self.pauses = 0  # how often it was asked to pause
        self._reported_pause = 0  # the number of the last pause that was reported while the task did not wait here
        self._counted = False  # as a source of the pump (FIBERTASK-4)
        self.wait: NativeWait | None = None
        self.address: int | None = None
        self.message: FiberMessage | None = None  # that arrived while the task did not wait here
        self._argument, self.keep = argument, keep
        self._pump: Pump | None = None  # None: it was not awaited yet
        self._fiber_mailbox: FiberMailbox | None = None  # None also in a replay (FIBERTASK-3)
        self._fiber_budget: FiberBudget | None = None  # None: nothing is limited
        self._lacks: Portion | None = None
        self._portion: Portion | None = None  # None: no limit

    kernel: Kernel  # set together with `_pump`
    task_name: str  # set together with `_pump`

    # ---- as a request

    def bill(self) -> Cost:
        if self.stopping:
            return FREE  # a task that cannot pay must still be able to end
        if self._fiber_budget is None:
            self._portion = self._lacks
            return SYSCALL
        self._portion = self._fiber_budget.portion(self._lacks)
        return self._fiber_budget.cost(self._portion)

    def perform(self, kernel: Kernel, task: Task) -> Any:
        pump: Pump = kernel.runtime.pump
        if self._pump is None:
            self._fiber_mailbox = mailbox = FiberMailbox.of(pump) if pump.live else None
            self._require_allowed(kernel, task, mailbox)
            self._pump, self.kernel, self.task_name = pump, kernel, task.name
            if not self._is_free(task, mailbox):
                self._fiber_budget = FiberBudget(task, kernel.runtime.driver.meter is not None)
                return TO_PAY  # the task is known only now: await again, so that `bill` can charge it
        if self.lives:
            self._go_on(task)
        else:
            self._begin(task)
        self.wait = wait = NativeWait(task)
        wait.run = self
        kernel.blocked(task, wait)
        pump.sources += 1
        self._counted = True
        if not pump.live:
            pump.expected[wait.label] = wait.deliver
        elif (self.message is not None or self._reported_pause) and self._fiber_mailbox is not None:
            self._deliver_kept(self._fiber_mailbox)
        return SUSPENDED

    def _require_allowed(self, kernel: Kernel, task: Task, mailbox: FiberMailbox | None) -> None:
        """Most tasks of a run have the same capability, so the mailbox remembers the last one that was allowed."""
        held = task.capabilities.get(CapExecutor)
        if mailbox is not None and held is not None and held is mailbox.cap and not kernel.registry.revoked_serials:
            return
        cap = require(task, task.capabilities, CapExecutor, "run a native function")
        if BACKEND not in cap.backends:
            allowed = ", ".join(sorted(cap.backends)) or "nothing"
            raise CapabilityDenied(
                f"task {task.name!r} may not run a native function: its CapExecutor allows {allowed}; "
                f"grant it CapExecutor(frozenset({{{BACKEND!r}}}))"
            )
        if mailbox is not None:
            mailbox.cap = cap

    def _is_free(self, task: Task, mailbox: FiberMailbox | None) -> bool:
        """Whether no pool of the task has a limit. A pool without a limit never gets one."""
        pools = task.pools
        if mailbox is not None and pools is mailbox.open_pools:
            return True
        free = all(pool.left is None for pool in pools)
        if free and mailbox is not None:
            mailbox.open_pools = pools
        return free

    def _begin(self, task: Task) -> None:
        """Start the function. If that fails, a message of its end is made, so that the usual path refunds the cost."""
        mailbox, program = self._fiber_mailbox, self.program
        if mailbox is not None:
            symbol = program.symbol if task.name == program.name else as_symbol(task.name)
            error = mailbox.spawn(self, program.address, self._argument, symbol, program.stack, self._portion)
            if error:
                self.message = FiberMessage(0, REFUSED, 0, error, 0, 0, 0, 0, 0)
        self.lives = True
        self._add_lent()

    def _go_on(self, task: Task) -> None:
        if not self.stopping:
            self._add_lent()
        if self.held and not is_pausing(task):  # the task was resumed while it did not wait here
            self.resume()
        if self._fiber_mailbox is None:
            return
        if self.stopping or self._portion is None:
            self._fiber_mailbox.refuse(self)
        else:
            self._fiber_mailbox.fill(self, self._portion)

    def _add_lent(self) -> None:
        if self._fiber_budget is not None and self._portion is not None:
            self._fiber_budget.add_lent(self._portion)

    def _deliver_kept(self, mailbox: FiberMailbox) -> None:
        """Deliver again the messages that arrived while the task did not wait here."""
        message, stood, self.message, self._reported_pause = self.message, self._reported_pause, None, 0
        if stood:
            mailbox.deliver(self, FiberMessage(0, PAUSED, 0, stood, 0, 0, 0, 0, 0))
        if message is not None:
            mailbox.deliver(self, message)

    # ---- requests to the function, and its messages

    def cancel(self) -> None:
        self.asked = True
        self._count(True)
        if self._fiber_mailbox is not None:
            self._fiber_mailbox.cancel(self)

    def pause(self) -> None:
        self.held = True
        self.pauses += 1
        if self._fiber_mailbox is not None:
            self._fiber_mailbox.pause(self, self.pauses)

    def resume(self) -> None:
        self.held = False
        self._count(True)
        if self._fiber_mailbox is not None:
            self._fiber_mailbox.resume(self)

    def report_paused(self) -> None:
        self._count(False)

    def _count(self, works: bool) -> None:
        """Count the function as a source of the pump while it works (FIBERTASK-4)."""
        if self.wait is not None and self._pump is not None and works is not self._counted:
            self._counted = works
            self._pump.sources += 1 if works else -1

    def stop(self, error: BaseException) -> None:
        """The function waits for budget and gets none. It must end, and the task waits for that."""
        self.stopping = True
        if isinstance(error, Cancelled):
            self.cancel()

    def on_message(self, message: FiberMessage) -> None:
        """At the beginning of a batch: record the message and end the wait, or keep the message for the next wait."""
        pump, wait = self._pump, self.wait
        if wait is None and message.kind == PAUSED:
            self._reported_pause = message.code
            return
        if self.message is not None and message.kind == SHORT:  # the function is short of both
            lacks = map(max, message.amounts, self.message.amounts)
            message = FiberMessage(message.key, SHORT, 0, message.code | self.message.code, *lacks)
        self.message = message
        assert pump is not None, "the function was started"
        if wait is None or pump.over:
            return
        if pump.kernel.observer is not None:
            pump.kernel.observer("outside", None, wait.label)
        wait.deliver()

    def take(self, kernel: Kernel, task: Task) -> FiberMessage:
        """The message. A recorded run records it; a replay takes it from the trace (FIBERTASK-3)."""
        pump, message = self._pump, self.message
        assert pump is not None, "the function was started"
        if message is None or kernel.observer is not None:
            message = FiberMessage.read(pump.ask(task, "native", self._message_text))
        self.message = None
        return message

    def _message_text(self) -> str:
        assert self.message is not None, "a delivery has a message"
        return str(self.message)

    def ended(self, kernel: Kernel, task: Task, message: FiberMessage) -> None:
        self.lives = False
        if self._fiber_budget is not None:
            kernel.charge_difference(task, self._fiber_budget.difference(message.amounts))
        elif any(amounts := message[4:]):
            kernel.charge_difference(task, amounts)

    def set_lacks(self, message: FiberMessage) -> None:
        self._lacks = message.amounts

    def withdrawn(self, wait: NativeWait) -> None:
        """The task no longer waits here."""
        pump = self._pump
        if self.wait is wait and pump is not None:
            pump.sources -= self._counted
            self.wait = None
            if not pump.live:
                del pump.expected[wait.label]

    # ---- the rest of the run

    async def run_to_end(self, message: FiberMessage) -> int:
        """After a message that is not a value: pay until the function ends, then its value or its error."""
        stopped_by: BaseException | None = None
        while message.kind in (SHORT, PAY):
            try:
                answer = await self
                message = FiberMessage(0, DONE, 0, answer, 0, 0, 0, 0, 0) if type(answer) is int else answer
            except (Cancelled, BudgetExceeded) as error:
                if not self.lives:
                    raise
                stopped_by = error
                self.stop(error)
        if stopped_by is not None:
            raise stopped_by
        return result_of_message(self.task_name, self.program, message)


class NativeWait(Wait):
    """The wait of a task for its native function: until the function has ended or is short of budget (FIBERTASK-1)."""

    __slots__ = ("run",)
    interruptible = False
    run: Run

    @property
    def label(self) -> str:
        """The task and its generation, as traces name them."""
        return f"native {self.task.id} {self.generation}"

    @property
    def reason(self) -> str:
        run, asked = self.run, ""
        if run.asked:
            asked = ", was asked to stop and has not left yet"
        elif run.held and is_pausing(self.task):  # otherwise the task is PAUSED, and the gate gives the reason
            asked = ", was asked to stand still and has not reached a point where it could: no tick, no yield, no wait"
        return f"runs {run.program.name} on the native workers{asked}"

    def interrupted(self, kernel: Dispatch) -> None:
        """Ask the function to stop at the next point where it could wait."""
        self.run.cancel()

    def ask_pause(self, kernel: Dispatch) -> None:
        """Ask the function to pause at the next point where it could wait."""
        self.run.pause()

    def ask_resume(self, kernel: Dispatch) -> None:
        self.run.resume()

    def withdraw(self, kernel: Dispatch) -> None:
        self.run.withdrawn(self)

    def deliver(self) -> None:
        """Act on a message, at the beginning of a batch."""
        run, task = self.run, self.task
        kernel = run.kernel
        message = run.take(kernel, task)
        kind = message.kind
        if kind == PAUSED:
            if message.code == run.pauses and is_pausing(task):  # otherwise the task was resumed since
                run.report_paused()
                reached(kernel, task)
            return
        if kind == SHORT:
            run.set_lacks(message)
            self.answer(kernel, message)
        else:
            run.ended(kernel, task, message)
            if kind == CANCELLED and task.cancel_pending:
                kernel.wake(task, self.generation)  # its next poll delivers `Cancelled`
            else:
                self.answer(kernel, message.code if kind == DONE else message)
        if run.held and is_pausing(task) and can_pause(task, message):
            reached(kernel, task)


def is_pausing(task: Task) -> bool:
    """Whether the task was asked to pause, and is not PAUSED yet."""
    ticket = cast("Ticket | None", task.ticket)
    return ticket is not None and ticket.pausing is not None


def can_pause(task: Task, message: FiberMessage) -> bool:
    """Whether a task can be paused when this message ends its wait.

    SHORT: if the function itself waits for budget, and not only one of its native tasks. An end: if the task has code
    after the function, because it is not the function's own task.
    """
    return bool(message.code) if message.kind == SHORT else getattr(task.work, "cr_code", None) is not CODE


def as_async_function(program: FiberEntry) -> NativeFunction:
    async def call(argument: Any = None, /) -> int:
        run = Run(program, *argument_at(argument))
        try:
            answer = await run
            return answer if type(answer) is int else await run.run_to_end(answer)
        finally:
            if run.lives:  # the task is cut, or the run torn down
                run.cancel()

    made = cast("Any", call)
    made.__name__ = made.__qualname__ = made.name = program.name
    made.address, made.stack = program.address, program.stack
    return made


CODE: Final = next(  # the code object of every `call` above
    const
    for const in as_async_function.__code__.co_consts
    if isinstance(const, CodeType) and const.co_flags & CO_COROUTINE  # 3.14 also has a code object for annotations
)
