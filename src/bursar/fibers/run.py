"""One run of one native function: the request that its task awaits, and the wait for what the engine says about it.

The request hands the function to the engine (`fibers.mailbox`) and blocks the task until the function has really
left. What comes meanwhile are letters: it has ended, it lacks money, or it stands still. The usual one is that it came
to a value, and then that is the answer; nothing else is made of it, and no words while nobody records.

A task that is paused has its function stand where that next could wait, or waits already; until then it runs, and so
the task does. One that ends first, or holds for money, has come to a point where its task can stand.

FIBERTASK-1  while its run goes on, a task ends only when its function has left; unless it is cut off while that holds
    for money
FIBERTASK-2  spent here + held there = charged to the task, and at its end nothing is held there
FIBERTASK-3  in a replay nothing native runs: what it came to is an answer of the host
FIBERTASK-4  a task that waits for its function is PAUSED only while the function stands, and then it is no source of
    the pump

Rejected: killing a function that does not stop. It may hold a lock, or be half way through somebody's data.
"""

from __future__ import annotations

from inspect import CO_COROUTINE
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, cast

from bursar.backend import Kernel, Task, Wait
from bursar.errors import BudgetExceeded, Cancelled, CapabilityDenied
from bursar.fibers.budget import FiberBudget, Portion
from bursar.fibers.end import CANCELLED, DONE, REFUSED, FiberEntry, as_symbol, result_of_message
from bursar.fibers.mailbox import PAUSED, SHORT, Guest, GuestMailbox, GuestMessage
from bursar.fibers.pointers import argument_at
from bursar.law.budget import FREE, SYSCALL, Cost
from bursar.law.capability import CapExecutor, require
from bursar.law.dispatch import Dispatch
from bursar.ops.pause import reached
from bursar.request import SUSPENDED, Request

if TYPE_CHECKING:
    from bursar.drive.pump import Pump
    from bursar.fibers.function import NativeFunction
    from bursar.law.admission.ticket import Ticket

BACKEND: Final = "native"
PAY: Final = 18  # a kind of letter of our own
TO_PAY: Final = GuestMessage(0, PAY, 0, 0, 0, 0, 0, 0, 0)


class Run(Guest, Request[Any]):
    """One run. Awaited: pays, lets the function run on, and answers with its value, or the next letter about it."""

    __slots__ = (
        "_argument",
        "_counted",
        "_fiber_budget",
        "_guest_mailbox",
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

    def __init__(self, program: FiberEntry, argument: Any) -> None:
        self.program = program
        self.lives = False  # it has begun, and the letter of its end has not been delivered
        self.stopping = False  # there is nothing more to give: only its end is awaited
        self.asked = False  # to stop
        self.held = False  # it was asked to stand still, and not resumed
        self.pauses = 0  # how often it was
        self._reported_pause = 0  # the last one of which it said so while nobody waited
        self._counted = False  # as a source of the pump (FIBERTASK-4)
        self.wait: NativeWait | None = None
        self.address: int | None = None
        self.message: GuestMessage | None = None  # what came while nobody waited
        self._argument, self.keep = argument_at(argument)
        self._pump: Pump | None = None  # None: it was not awaited yet
        self._guest_mailbox: GuestMailbox | None = None  # None also in a replay (FIBERTASK-3)
        self._fiber_budget: FiberBudget | None = None  # None: nothing is limited
        self._lacks: Portion | None = None
        self._portion: Portion | None = None  # None: as much as can be counted

    kernel: Kernel  # set with its pump,
    task_name: str  # as is this

    # ---- as a request

    def bill(self) -> Cost:
        if self.stopping:
            return FREE  # what cannot be paid must not keep a task from ending
        if self._fiber_budget is None:
            self._portion = self._lacks
            return SYSCALL
        self._portion = self._fiber_budget.portion(self._lacks)
        return self._fiber_budget.cost(self._portion)

    def perform(self, kernel: Kernel, task: Task) -> Any:
        pump: Pump = kernel.runtime.pump
        if self._pump is None:
            self._guest_mailbox = mailbox = GuestMailbox.of(pump) if pump.live else None
            self._require_allowed(kernel, task, mailbox)
            self._pump, self.kernel, self.task_name = pump, kernel, task.name
            if not self._is_free(task, mailbox):
                self._fiber_budget = FiberBudget(task, kernel.runtime.driver.meter is not None)
                return TO_PAY  # now that it is known from whom: await again
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
        elif (self.message is not None or self._reported_pause) and self._guest_mailbox is not None:
            self._remind(self._guest_mailbox)
        return SUSPENDED

    def _require_allowed(self, kernel: Kernel, task: Task, mailbox: GuestMailbox | None) -> None:
        """Most tasks of a run have the same capability: looked at once, it need not be looked at again."""
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

    def _is_free(self, task: Task, mailbox: GuestMailbox | None) -> bool:
        """Whether nothing that the task has is limited. A pool that is open stays so."""
        pools = task.pools
        if mailbox is not None and pools is mailbox.open_pools:
            return True
        free = all(pool.left is None for pool in pools)
        if free and mailbox is not None:
            mailbox.open_pools = pools
        return free

    def _begin(self, task: Task) -> None:
        """A function that cannot be started has ended at once: so what was paid for it comes back in the usual way."""
        mailbox, program = self._guest_mailbox, self.program
        if mailbox is not None:
            symbol = program.symbol if task.name == program.name else as_symbol(task.name)
            error = mailbox.spawn(self, program.address, self._argument, symbol, program.stack, self._portion)
            if error:
                self.message = GuestMessage(0, REFUSED, 0, error, 0, 0, 0, 0, 0)
        self.lives = True
        self._handed()

    def _go_on(self, task: Task) -> None:
        if not self.stopping:
            self._handed()
        if self.held and not is_pausing(task):  # it was resumed while it did not wait here
            self.resume()
        if self._guest_mailbox is None:
            return
        if self.stopping or self._portion is None:
            self._guest_mailbox.refuse(self)
        else:
            self._guest_mailbox.fill(self, self._portion)

    def _handed(self) -> None:
        if self._fiber_budget is not None and self._portion is not None:
            self._fiber_budget.handed(self._portion)

    def _remind(self, mailbox: GuestMailbox) -> None:
        """What came while nobody waited comes again."""
        message, stood, self.message, self._reported_pause = self.message, self._reported_pause, None, 0
        if stood:
            mailbox.deliver(self, GuestMessage(0, PAUSED, 0, stood, 0, 0, 0, 0, 0))
        if message is not None:
            mailbox.deliver(self, message)

    # ---- from outside

    def cancel(self) -> None:
        self.asked = True
        self._count(True)
        if self._guest_mailbox is not None:
            self._guest_mailbox.cancel(self)

    def pause(self) -> None:
        self.held = True
        self.pauses += 1
        if self._guest_mailbox is not None:
            self._guest_mailbox.pause(self, self.pauses)

    def resume(self) -> None:
        self.held = False
        self._count(True)
        if self._guest_mailbox is not None:
            self._guest_mailbox.resume(self)

    def report_paused(self) -> None:
        self._count(False)

    def _count(self, works: bool) -> None:
        """FIBERTASK-4."""
        if self.wait is not None and self._pump is not None and works is not self._counted:
            self._counted = works
            self._pump.sources += 1 if works else -1

    def stop(self, told: BaseException) -> None:
        """It holds for want of money, and gets none: it is to end, and the task waits for that."""
        self.stopping = True
        if isinstance(told, Cancelled):
            self.cancel()

    def on_message(self, message: GuestMessage) -> None:
        """A letter, at the beginning of a batch."""
        pump, wait = self._pump, self.wait
        if wait is None and message.kind == PAUSED:
            self._reported_pause = message.code
            return
        if self.message is not None and message.kind == SHORT:  # it lacks this as well
            lacks = map(max, message.amounts, self.message.amounts)
            message = GuestMessage(message.key, SHORT, 0, message.code | self.message.code, *lacks)
        self.message = message
        assert pump is not None, "it has begun"
        if wait is None or pump.over:
            return
        if pump.kernel.observer is not None:
            pump.kernel.observer("outside", None, wait.label)
        wait.deliver()

    def take(self, kernel: Kernel, task: Task) -> GuestMessage:
        """What came, on record if there is one; in a replay what came then (FIBERTASK-3)."""
        pump, message = self._pump, self.message
        assert pump is not None, "it has begun"
        if message is None or kernel.observer is not None:
            message = GuestMessage.read(pump.ask(task, "native", self._message_text))
        self.message = None
        return message

    def _message_text(self) -> str:
        assert self.message is not None, "a delivery is about something"
        return str(self.message)

    def ended(self, kernel: Kernel, task: Task, message: GuestMessage) -> None:
        self.lives = False
        if self._fiber_budget is not None:
            kernel.charge_difference(task, self._fiber_budget.difference(message.amounts))
        elif any(amounts := message[4:]):
            kernel.charge_difference(task, amounts)

    def lacks(self, message: GuestMessage) -> None:
        self._lacks = message.amounts

    def withdrawn(self, wait: NativeWait) -> None:
        """Nobody waits any more."""
        pump = self._pump
        if self.wait is wait and pump is not None:
            pump.sources -= self._counted
            self.wait = None
            if not pump.live:
                del pump.expected[wait.label]

    # ---- what came of it

    async def to_its_end(self, message: GuestMessage) -> int:
        """From a letter that is no value to the end."""
        told: BaseException | None = None
        while message.kind in (SHORT, PAY):
            try:
                answer = await self
                message = GuestMessage(0, DONE, 0, answer, 0, 0, 0, 0, 0) if type(answer) is int else answer
            except (Cancelled, BudgetExceeded) as error:
                if not self.lives:
                    raise
                told = error
                self.stop(error)
        if told is not None:
            raise told
        return result_of_message(self.task_name, self.program, message)


class NativeWait(Wait):
    """A task whose native function runs, until that has left or lacks money (FIBERTASK-1)."""

    __slots__ = ("run",)
    interruptible = False
    run: Run

    @property
    def label(self) -> str:
        """The task and its poll, as they are named in the evidence."""
        return f"native {self.task.id} {self.generation}"

    @property
    def reason(self) -> str:
        run, asked = self.run, ""
        if run.asked:
            asked = ", was asked to stop and has not left yet"
        elif run.held and is_pausing(self.task):  # else it stands, as the gate says
            asked = ", was asked to stand still and has not reached a point where it could: no tick, no yield, no wait"
        return f"runs {run.program.name} on the native workers{asked}"

    def interrupted(self, kernel: Dispatch) -> None:
        """A request to stop reaches the function where it next could wait."""
        self.run.cancel()

    def ask_pause(self, kernel: Dispatch) -> None:
        """Stand where the function next could wait."""
        self.run.pause()

    def ask_resume(self, kernel: Dispatch) -> None:
        self.run.resume()

    def withdraw(self, kernel: Dispatch) -> None:
        self.run.withdrawn(self)

    def deliver(self) -> None:
        """A letter is here, at the beginning of a batch."""
        run, task = self.run, self.task
        kernel = run.kernel
        message = run.take(kernel, task)
        kind = message.kind
        if kind == PAUSED:
            if message.code == run.pauses and is_pausing(task):  # else it was resumed meanwhile
                run.report_paused()
                reached(kernel, task)
            return
        if kind == SHORT:
            run.lacks(message)
            self.answer(kernel, message)
        else:
            run.ended(kernel, task, message)
            if kind == CANCELLED and task.cancel_pending:
                kernel.wake(task, self.generation)  # and is told `Cancelled`
            else:
                self.answer(kernel, message.code if kind == DONE else message)
        if run.held and is_pausing(task) and can_pause(task, message):
            reached(kernel, task)


def is_pausing(task: Task) -> bool:
    """Whether it was asked to pause, and does not stand yet."""
    ticket = cast("Ticket | None", task.ticket)
    return ticket is not None and ticket.pausing is not None


def can_pause(task: Task, message: GuestMessage) -> bool:
    """Whether a task whose wait is over by this letter stands: its function holds itself, and not one of its own tasks;
    or it has ended, and is not all that the task does.
    """
    return bool(message.code) if message.kind == SHORT else getattr(task.work, "cr_code", None) is not CODE


def as_async_function(program: FiberEntry) -> NativeFunction:
    async def call(argument: Any = None, /) -> int:
        run = Run(program, argument)
        try:
            answer = await run
            return answer if type(answer) is int else await run.to_its_end(answer)
        finally:
            if run.lives:  # the task is cut off, or the run torn down
                run.cancel()

    made = cast("Any", call)
    made.__name__ = made.__qualname__ = made.name = program.name
    made.address, made.stack = program.address, program.stack
    return made


CODE: Final = next(
    const
    for const in as_async_function.__code__.co_consts
    if isinstance(const, CodeType) and const.co_flags & CO_COROUTINE  # 3.14 has one for its annotations too
)  # of all those
