"""The model of a verified run: a real kernel that a trace drives instead of a program.

A record is either an *act* or a *consequence*. An act is an input of the law: a request of the program, the time, a
post from outside. A consequence is what the law does with it. The model takes an act from the trace, and calls the
function of the law that the run must have called. The model is the observer of its own kernel: each event that the law
then reports must equal the next record. So the law is not written a second time here, and every record that the law
does not lead to is found.

The law also calls the program back: at the end of a wait, and when an obligation is undone. What the program did there
is read from the trace at this point. Nothing is kept of a task that ended, unless other tasks clean up for it.

Rejected: own rules about the order of records ("delivered follows requested"). Each such rule would be a second law,
weaker than the first, and a forger would have to satisfy only the weaker law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from bursar.errors import TraceError
from bursar.law import cancel
from bursar.law.budget import SYSCALLS, Budget
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason, CancelScope
from bursar.law.capability import CapSpawn
from bursar.law.costs import OP, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.kernel import Kernel
from bursar.law.nursery import Nursery
from bursar.law.pool import PAID
from bursar.law.state import Outcome, OutcomeKind
from bursar.law.steal import StealPolicy
from bursar.law.task import Task
from bursar.law.timers import Timer, TimerKind
from bursar.law.wake import Notice, Wait
from bursar.trace.catalogue import KINDS, NONE, SPAWNED
from bursar.trace.events import TraceContext, TraceRecord

FAILURES: Final = frozenset({OutcomeKind.FAILED, OutcomeKind.PANICKED})
LAW_TEXTS: Final = frozenset(  # kinds whose text the law makes, or an earlier record had
    {"budget_held", "budget_exceeded", "cancel_delivered", "obligation_settled", "named_amounts"}
)
LEAVING: Final = frozenset({"scope_left", "nursery_closing", "nursery_closed"})


class Records:
    """The records of a trace, one after the other. `next` is the record that comes next."""

    def __init__(self, records: Iterator[TraceRecord]) -> None:
        self._rest = records
        self.number = -1  # of the next record, counted from 0
        self.next: TraceRecord | None = None
        self.advance()

    def advance(self) -> None:
        self.number += 1
        self.next = next(self._rest, None)

    def comes(self, name: str) -> bool:
        return self.next is not None and self.next.kind.name == name

    def wrong(self, what: str) -> TraceError:
        """An error that shows the next record and says what is wrong with it."""
        shown = "the end of the trace" if self.next is None else str(self.next)
        return TraceError(f"record {self.number:,}: {shown} — {what}", self.number)


class _Wait(Wait):
    """The wait of a task of the model, with all that the law needs to know."""

    __slots__ = ("interruptible", "timers")

    def __init__(self, task: Task, interruptible: bool, timers: list[Timer]) -> None:
        super().__init__(task)
        self.interruptible = interruptible
        self.timers = timers  # that the task armed for this wait, in order

    @property
    def reason(self) -> str:
        return ""

    def withdraw(self, kernel: Dispatch) -> None:
        for timer in self.timers:
            kernel.timers.disarm(timer)

    def interrupted(self, kernel: Dispatch) -> None:
        cast("Model", kernel).wait_interrupted(self)


class _Ending:
    """Stands for the outcome of a task that ends. It is read from the trace when the law needs it."""

    def __init__(self, records: Records, task: Task, swallowed: bool) -> None:
        self._records = records
        self._task = task
        draining = task.phase is CancelPhase.DRAINING and task.reason is not None
        self._stopped = draining and task.reason is not None and task.reason.kind is not CancelKind.BUDGET
        self._swallowed = swallowed
        self._kind: OutcomeKind | None = None

    @property
    def kind(self) -> OutcomeKind:
        if self._kind is None:
            done = self._records.next
            if done is None or done.name != "task_done" or done.numbers[0] != self._task.id:
                raise self._records.wrong(f"the law would have ended task {self._task.id} here")
            self._kind = OutcomeKind(done.numbers[1])
            if bool(done.text) != (self._kind in FAILURES):
                raise self._records.wrong("a failed task ends with an error, and no other task does")
            if (self._stopped and self._kind is OutcomeKind.OK) or (
                self._swallowed and self._kind is not OutcomeKind.CANCELLED
            ):
                raise self._records.wrong("the task got Cancelled: the law would have ended it as cancelled")
        return self._kind

    @property
    def error(self) -> BaseException | None:
        return Exception() if self.kind in FAILURES else None

    @property
    def reason(self) -> CancelReason | None:
        return self._task.reason


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


class Model(Kernel):
    """A kernel that a trace drives. Each `on_…` takes the act of that name, and all its consequences.

    This class has tasks, timers and cancel scopes. `model_families` and `model_gates` add the rest.
    """

    def __init__(self, header: dict[str, Any], records: Records) -> None:
        super().__init__(
            seed=header["seed"],
            workers=header["workers"],
            budget=Budget(*header["budget"], **header.get("named", {})),
            steal_policy=StealPolicy(header["steal"]),
            yield_interval=header["yield_interval"],
            cleanup_ops=header["cleanup_ops"],
            cleanup_ns=header["cleanup_ns"],
        )
        self.records = records
        self.root.cancel_on_failure = False
        self.root.capabilities = {
            **self.root.capabilities,
            CapSpawn: self.registry.mint(CapSpawn()),
        }  # every task may spawn
        self._nurseries: dict[int, Nursery] = {self.root.id: self.root}
        self._holding: dict[int, bool] = {}  # nursery in which a task was short of budget → does it hold such tasks?
        self._debtors: dict[int, Task] = {}  # tasks that ended, and whose cleanup credit other tasks use
        self._armed: list[Timer] = []  # by the running task, for its next wait
        self._ended: Task | None = None  # the task that ended last
        self.returned: set[int] = set()  # cancelled tasks whose code has ended
        self.paid: Cost | None = None  # the last charge, until the act that it pays for
        self.named: dict[str, int] = {}  # the amounts of named counters of the next act
        self.named_record: TraceRecord | None = None  # from which they were read, until the law reports them too
        self.observe(self._on_note)

    def _on_note(self, name: str, task: Task | None, detail: Any) -> None:
        """The observer: the event must equal the next record."""
        kind = KINDS[name]
        numbers, text = kind.describe(self, task, detail)
        records = self.records
        if name == "named_amounts" and self.named_record is not None:
            self._repeats(self.named_record, TraceRecord(kind, numbers, cast("bytes", text)))
            return
        while name in LEAVING and records.comes("failure_unraised"):  # the model has no exceptions of the program
            self.on_failure_unraised(*cast("TraceRecord", records.next).numbers)
        found = records.next
        if (
            found is None
            or found.kind is not kind
            or found.numbers != numbers
            or (self._is_law_text(name, detail) and found.text != _encoded(text))
        ):
            raise records.wrong(self._expected(TraceRecord(kind, numbers, _encoded(text))))
        records.advance()
        if name == "task_exhausted" and task is not None:
            self._learn_hold_policy(task)
        elif name == "cancel_requested" and task is not None:
            scope = list(cancel.outward(task))[-1 - numbers[3]]
            scope.reason = replace(detail, detail=found.decoded_text)

    def on_named_amounts(self, id: int) -> None:
        """The amounts of named counters come before the act to which they belong."""
        record = self.records.next
        assert record is not None, "`follow` has this record"
        pairs = [pair.partition("=") for pair in record.decoded_text.split()]
        if self.named_record is not None or not all(amount.isdecimal() for _, _, amount in pairs):
            raise self.records.wrong("these are no amounts of named counters, or their act is missing")
        self.named = {name: int(amount) for name, _, amount in pairs}
        self.named_record = record
        self.records.advance()

    def _repeats(self, read: TraceRecord, lawful: TraceRecord) -> None:
        """The law reports the amounts that were read: they must be the same."""
        if read != lawful:
            raise self.records.wrong(f"{read} came before it: {self._expected(lawful)}")
        self.named, self.named_record = {}, None

    def _budget(self, amounts: Sequence[int]) -> Budget:
        """The budget of the next act."""
        return Budget(*(None if amount == NONE else amount for amount in amounts), **self.named)

    def _learn_hold_policy(self, task: Task) -> None:
        """A trace does not say whether a nursery holds exhausted tasks. The first exhausted task shows it."""
        nursery = task.nursery
        if task.short_of != PAID and nursery.reason is None and not task.requested:
            nursery.hold = self._holding.setdefault(nursery.id, self.records.comes("budget_held"))

    def _is_law_text(self, name: str, detail: Any) -> bool:
        """Whether the law determines the text. Otherwise the text comes from the program."""
        if name == "task_done":
            return isinstance(detail, Outcome)  # not `_Ending`: a dropped task, which has no code that could fail
        if name == "task_dropped":
            return bool(detail.detail)  # not an explicit drop
        return name in LAW_TEXTS or (name == "cancel_requested" and detail.kind is CancelKind.TIMEOUT)

    def _expected(self, lawful: TraceRecord) -> str:
        if lawful.name == "scheduler_step_decision":
            event = TraceContext().event(*lawful)
            worker = f" of worker {event.numbers['worker']}" if len(self.workers) > 1 else ""
            return f"the law would have dispatched task {event.task_id} from the {event.lane} lane{worker}: {lawful}"
        return f"the law would have recorded {lawful}"

    # ---- checks of one record

    def _live(self, id: int) -> Task:
        task = self.tasks.get(id)
        if task is None:
            raise self.records.wrong(f"there is no live task {id}")
        return task

    def _acting(self, id: int) -> Task:
        """The running task, which must have this id."""
        task = self.current
        if task is None or task.id != id:
            runs = "no task runs" if task is None else f"task {task.id} runs"
            raise self.records.wrong(f"only the running task can do this, and {runs}")
        return task

    def _awaits(self, task: Task) -> None:
        """The task awaits a request. `Cancelled` comes first, and a cut task awaits nothing."""
        if task.cut:
            raise self.records.wrong(f"task {task.id} was cut: the law would have closed it")
        if task.cancel_pending and cancel.deliverable(task) is not None:
            raise self.records.wrong(f"the law would first have delivered Cancelled to task {task.id}")

    def _billed(self) -> None:
        """A request is billed before it is performed."""
        if self.paid is None:
            raise self.records.wrong("the law would have charged the task for this first")

    def _calls_out(self) -> bool:
        """Whether the running task has just paid for a call of the host."""
        return any(component == SYSCALLS for component, _ in self.paid or ())

    def _number(self, id: int) -> None:
        """Give this id to the next object. Channels have ids too but no events, so there may be gaps."""
        if id < self._next_id:
            raise self.records.wrong(f"ids only grow: the next id is at least {self._next_id}")
        self._next_id = id

    # ---- tasks

    def on_task_spawned(self, id: int, region: int, spawner: int, pinned: int, *granted: int) -> None:
        nursery = self._nurseries.get(region)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {region}")
        self._number(id)
        name = cast("TraceRecord", self.records.next).decoded_text
        how = SPAWNED[pinned] if pinned < len(SPAWNED) else ""
        if how in ("pending", "again"):
            self._submitted(nursery, name, self._budget(granted), how == "again")
            return
        outside = self.current is None and not pinned  # another thread spawned it, for the nursery's owner
        by = nursery.owner if outside else None
        task = self.spawn(nursery, name=name, budget=self._budget(granted), pinned=bool(pinned), spawner=by)
        if self.records.comes("task_tidies"):
            self._tidies(task, self._debtor(cast("TraceRecord", self.records.next).numbers[1]))

    def _submitted(self, nursery: Nursery, name: str, budget: Budget, again: bool) -> None:
        raise NotImplementedError  # see `evidence.verify.model_gates`

    def _debtor(self, id: int) -> Task:
        """The task whose cleanup credit is used. It may have ended."""
        if not self.root.id < id < self._next_id or id in self._nurseries:
            raise self.records.wrong(f"there was no task {id}")
        debtor = self.tasks.get(id) or self._debtors.get(id)
        if debtor is None:
            debtor = self._debtors[id] = Task(id, "", self.root, self.root.pools, {})
        return debtor

    def on_task_enqueued(self, id: int, *_: int) -> None:
        """A yield, which costs one op. Every other way into a queue is a consequence of another act."""
        if self.paid != OP:
            raise self.records.wrong("the law would have charged the task one op for the yield")
        self.yielded(self._acting(id))

    def on_task_blocked(self, id: int, interruptible: int) -> None:
        task, timers, self._armed = self._acting(id), self._armed, []
        if interruptible:
            self._awaits(task)
            # These waits are free: for the task's children, and for the slot that its ticket lent to them.
            waits_for_children = any(scope.exiting for scope in cancel.outward(task))
            regains = getattr(task.ticket, "regain", None) is not None
            if not timers and not waits_for_children and not regains:
                self._billed()
        elif not self._calls_out() and (self.paid or timers or not (task.has_children() or task.cleanup_left >= 0)):
            raise self.records.wrong(
                "only a wait for children at the end, for asyncio, a thread or native code is not interruptible"
            )
        self.blocked(task, _Wait(task, bool(interruptible), timers))

    def on_task_woken(self, id: int, generation: int, notice: int) -> None:
        self.wake(self._live(id), generation)

    def on_stale_wake(self, id: int, region: int, generation: int, notice: int) -> None:
        if id in self.tasks:
            self.wake(self.tasks[id], generation)
            return
        if not 0 < id < self._next_id or not 0 < region < id or notice != Notice.STALE:
            raise self.records.wrong("there was no such task, or its wake was not stale")
        self.records.advance()

    def wait_interrupted(self, wait: _Wait) -> None:
        """A request to cancel leaves this wait in place. The wait may then end by itself, or get a time limit."""
        task = wait.task
        if self.records.comes("asyncio_abandoned"):
            self.report("asyncio_abandoned", task, "")
            self.wake(task, wait.generation)
        elif self.records.comes("timer_armed") and not any(timer.armed for timer in wait.timers):
            wait.timers.append(self.timers.arm(self.now_ns + self.cleanup_ns, TimerKind.CLEANUP, task))

    def on_task_done(self, id: int, *_: int) -> None:
        """The end of a task. Its first record may also be a leaked obligation or the end of a cleanup."""
        task, nursery = self._acting(id), self._acting(id).nursery
        self.finish(task, cast("Outcome", _Ending(self.records, task, id in self.returned)))
        self.returned.discard(id)
        nursery.failures.clear()
        nursery.failed.clear()
        self._ended = task
        if task.credit_used or task.credit_of is not None:
            self._debtors[id] = task

    on_cleanup_ended = on_task_done

    def on_failure_unraised(self, id: int) -> None:
        self._acting(id)
        self.records.advance()

    # ---- timers and scopes

    def on_timer_armed(self, id: int, timer: int, generation: int, deadline_ns: int, kind: int) -> None:
        """A sleep, perhaps one of several in a select. All other timers are consequences."""
        if not self._armed:
            self._billed()
        if deadline_ns <= self.now_ns:
            raise self.records.wrong(
                f"it is already {self.now_ns:,} ns: a task does not wait for a time that has passed"
            )
        self._armed.append(self.timers.arm(deadline_ns, TimerKind.WAKE, self._acting(id)))

    def on_stale_timer(self, id: int, region: int, timer: int, generation: int) -> None:
        self.timer_fired(timer, generation)

    def on_scope_opened(self, id: int, shielded: int) -> None:
        task = self._acting(id)
        self._billed()
        block = CancelScope(task)
        block.shielded = bool(shielded)
        self.note("scope_opened", task, block)
        armed = self.records.next
        if armed is not None and armed.name == "timer_armed" and armed.numbers[-1] == TimerKind.DEADLINE:
            block.timer = self.timers.arm(max(armed.numbers[3], self.now_ns), TimerKind.DEADLINE, task, block)

    def on_scope_left(self, id: int) -> None:
        block = self._acting(id).inner
        if block is None or block.body_of is not None:
            raise self.records.wrong(f"the innermost open scope of task {id} is neither a timeout nor a shield")
        cancel.leave(self, block)
