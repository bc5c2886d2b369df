"""The model of a verified run: a real kernel that is led through a trace instead of a program.

A record is either an *act* or a *consequence*. An act is what the law cannot know: a program asked for something, time
has come so far, something happened outside. A consequence is what the law makes of it. The model takes an act from the
trace, calls the function of the law that the run must have called, and the law does the rest: it is the observer of its
own kernel, and each time the law tells it something, the next record must say the same. So nothing of the law is said a
second time here, and a record that the law does not lead to cannot be in its place.

What a program does while the law calls it back (the end of a wait, the undoing of an obligation) is read from the trace
at that very place. Of a task that is over nothing is kept, unless it went into debt for its cleanup.

Rejected: comparing the order of records against rules of its own ("delivered follows requested"). Each such rule is a
second law, weaker than the first, and a forger needs to fool only the weaker one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from bursar.errors import BudgetExceeded, TraceError
from bursar.evidence.events import CANCEL_KINDS, KINDS, NONE, Context, Kind, Numbers
from bursar.law import cancel
from bursar.law.budget import CHANNEL, MEMORY, OP, PAID, SPAWNS, Budget, Cost, Pools
from bursar.law.cancel import Block, CancelKind, CancelPhase, CancelReason
from bursar.law.capability import CapSpawn
from bursar.law.dispatch import Dispatch
from bursar.law.kernel import Kernel
from bursar.law.nursery import Nursery
from bursar.law.obligation import Settled
from bursar.law.state import Outcome, OutcomeKind
from bursar.law.steal import StealPolicy
from bursar.law.task import Task
from bursar.law.timers import Timer, TimerKind
from bursar.law.wake import Notice, Wait

FAILURES: Final = frozenset({OutcomeKind.FAILED, OutcomeKind.PANICKED})
WORDS: Final = frozenset({"budget_held", "budget_exceeded", "cancel_delivered", "obligation_settled"})
OTHERS_WAKES: Final = frozenset({"task_woken", "stale_wake", "obligation_made"})  # what giving something back leads to


class Record(NamedTuple):
    """One record of a trace."""

    kind: Kind
    numbers: Numbers
    text: bytes

    @property
    def name(self) -> str:
        return self.kind.name

    def __str__(self) -> str:
        return str(Context().event(*self))


class Records:
    """The records of a trace, one after the other, with a look at the next one."""

    def __init__(self, records: Iterator[tuple[Kind, Numbers, bytes]]) -> None:
        self._rest = records
        self.number = -1  # of the next one, counted from 0
        self.next: Record | None = None
        self.advance()

    def advance(self) -> None:
        self.number += 1
        found = next(self._rest, None)
        self.next = None if found is None else Record(*found)

    def comes(self, name: str) -> bool:
        return self.next is not None and self.next.kind.name == name

    def wrong(self, what: str) -> TraceError:
        """The error that names the next record, and what is wrong with it."""
        shown = "the end of the trace" if self.next is None else str(self.next)
        return TraceError(f"record {self.number:,}: {shown} — {what}", self.number)


class _Wait(Wait):
    """What a task of the model waits for: all that the law knows of it."""

    __slots__ = ("interruptible", "timers")

    def __init__(self, task: Task, interruptible: bool, timers: list[Timer]) -> None:
        super().__init__(task)
        self.interruptible = interruptible
        self.timers = timers  # armed for this wait, in order

    @property
    def reason(self) -> str:
        return ""

    def withdraw(self, kernel: Dispatch) -> None:
        for timer in self.timers:
            kernel.timers.disarm(timer)

    def interrupted(self, kernel: Dispatch) -> None:
        cast("Model", kernel).wait_interrupted(self)


class _Ending:
    """The outcome of a task that is ending, read from the trace when the law asks for it."""

    reason = None

    def __init__(self, records: Records, task: Task, swallowed: bool) -> None:
        self._records = records
        self._task = task
        told = task.phase is CancelPhase.DRAINING and task.reason is not None
        self._stopped = told and task.reason is not None and task.reason.kind is not CancelKind.BUDGET
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
                raise self._records.wrong("a task that failed, and no other, ends with an error")
            if (self._stopped and self._kind is OutcomeKind.OK) or (
                self._swallowed and self._kind is not OutcomeKind.CANCELLED
            ):
                raise self._records.wrong("the task was told to stop: the law would have ended it as cancelled")
        return self._kind

    @property
    def error(self) -> BaseException | None:
        return Exception() if self.kind in FAILURES else None


def budget_of(amounts: Sequence[int]) -> Budget:
    return Budget(*(None if amount == NONE else amount for amount in amounts))


class Model(Kernel):
    """A kernel that acts as a trace says. `on_…` takes the act of that name, and all that follows from it."""

    def __init__(self, header: dict[str, Any], records: Records) -> None:
        super().__init__(
            seed=header["seed"],
            workers=header["workers"],
            budget=Budget(*header["budget"]),
            steal_policy=StealPolicy(header["steal"]),
            yield_interval=header["yield_interval"],
            cleanup_ops=header["cleanup_ops"],
            cleanup_ns=header["cleanup_ns"],
        )
        self.records = records
        self.root.cancel_on_failure = False
        self.root.capabilities = {**self.root.capabilities, CapSpawn: self.registry.mint(CapSpawn())}  # all may spawn
        self._nurseries: dict[int, Nursery] = {self.root.id: self.root}
        self._debtors: dict[int, Task] = {}  # tasks that are over, and whose cleanup credit is used
        self._armed: list[Timer] = []  # by the task that runs, for the wait that comes
        self._ended: Task | None = None  # the task that ended last
        self._swallowed: set[int] = set()  # tasks that were told to stop and returned
        self.paid: Cost | None = None  # what was charged last, if nothing happened since
        self.observe(self._heard)

    def _heard(self, name: str, task: Task | None, detail: Any) -> None:
        """The law tells something: the next record must say the same."""
        kind = KINDS[name]
        numbers, text = kind.describe(self, task, detail)
        records = self.records
        while records.comes("failure_unraised") and task is self.current:  # the model keeps no errors of the program
            self.on_failure_unraised(*cast("Record", records.next).numbers)
        found = records.next
        if (
            found is None
            or found.kind is not kind
            or found.numbers != numbers
            or (self._laws_words(name, detail) and found.text != str(text).encode())
        ):
            raise records.wrong(self._instead(Record(kind, numbers, str(text).encode())))
        records.advance()
        if name == "task_exhausted" and task is not None:
            task.nursery.hold = records.comes("budget_held")  # a rule of the nursery, which shows only now
        elif name == "cancel_requested" and task is not None:
            scope = list(cancel.outward(task))[-1 - numbers[3]]
            scope.reason = replace(detail, detail=found.text.decode("utf-8", "replace"))

    def _laws_words(self, name: str, detail: Any) -> bool:
        """Whether the text is made up by the law, or was told before; else it contains words of the program."""
        return name in WORDS or (name == "cancel_requested" and detail.kind is CancelKind.TIMEOUT)

    def _instead(self, lawful: Record) -> str:
        if lawful.name == "scheduler_step_decision":
            told = Context().event(*lawful)
            worker = f" of worker {told.numbers['worker']}" if len(self.workers) > 1 else ""
            return f"the law would have dispatched task {told.task_id} from the {told.lane} lane{worker}: {lawful}"
        return f"the law would have told {lawful}"

    # ---- who and what

    def _live(self, id: int) -> Task:
        task = self.tasks.get(id)
        if task is None:
            raise self.records.wrong(f"there is no living task {id}")
        return task

    def _acting(self, id: int) -> Task:
        """The task that runs, which must be the one that is meant."""
        task = self.current
        if task is None or task.id != id:
            runs = "no task runs" if task is None else f"task {task.id} runs"
            raise self.records.wrong(f"only the task that runs can do this, and {runs}")
        return task

    def _awaits(self, task: Task) -> None:
        """A request to stop is delivered before whatever the task awaits takes effect."""
        if task.cancel_pending and cancel.deliverable(task) is not None:
            raise self.records.wrong(f"the law would have told task {task.id} first that it is to stop")

    def _billed(self) -> None:
        """What a task asks for is billed before it is done."""
        if self.paid is None:
            raise self.records.wrong("the law would have charged the task for this first")

    def _owned(self, owner: int, id: int) -> Nursery:
        """A nursery, by its owner, who must run; nobody runs when the root is meant."""
        nursery = self._nurseries.get(id)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {id}")
        if nursery.owner is not self.current or (nursery is self.root and self.tasks):
            raise self.records.wrong(f"only its owner ends the block of {nursery.name}")
        return nursery

    def _number(self, id: int) -> None:
        """The next thing has this number. Channels are numbered too, and not told: there may be gaps."""
        if id < self._next_id:
            raise self.records.wrong(f"numbers grow: the next is {self._next_id} at least")
        self._next_id = id

    # ---- tasks

    def on_task_spawned(self, id: int, region: int, spawner: int, pinned: int, *granted: int) -> None:
        nursery = self._nurseries.get(region)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {region}")
        self._number(id)
        name = cast("Record", self.records.next).text.decode("utf-8", "replace")
        behalf = (
            None if pinned or self.current is not None else nursery.owner
        )  # whoever spawns from outside spawns for it
        task = self.spawn(nursery, name=name, budget=budget_of(granted), pinned=bool(pinned), spawner=behalf)
        if self.records.comes("task_tidies"):
            self._tidies(task, self._debtor(cast("Record", self.records.next).numbers[1]))

    def _debtor(self, id: int) -> Task:
        """The task whose cleanup credit is used; it may be over."""
        if not self.root.id < id < self._next_id or id in self._nurseries:
            raise self.records.wrong(f"there was no task {id}")
        debtor = self.tasks.get(id) or self._debtors.get(id)
        if debtor is None:
            debtor = self._debtors[id] = Task(id, "", self.root, self.root.pools, {})
        return debtor

    def on_task_enqueued(self, id: int, *_: int) -> None:
        """Everything else that queues a task is an act of its own, so this one gave way, which costs one op."""
        if self.paid != OP:
            raise self.records.wrong("the law would have charged the task one op for giving way")
        self.yielded(self._acting(id))

    def on_task_blocked(self, id: int, interruptible: int) -> None:
        task, timers, self._armed = self._acting(id), self._armed, []
        if interruptible:
            self._awaits(task)
        self.blocked(task, _Wait(task, bool(interruptible), timers))

    def on_task_woken(self, id: int, generation: int, notice: int) -> None:
        self.wake(self._live(id), generation)

    def on_stale_wake(self, id: int, region: int, generation: int, notice: int) -> None:
        if id in self.tasks:
            self.wake(self.tasks[id], generation)
            return
        if not 0 < id < self._next_id or not 0 < region < id or notice != Notice.STALE:
            raise self.records.wrong(
                "a wake for a task that is over is stale, and for one that never was there is none"
            )
        self.records.advance()

    def wait_interrupted(self, wait: _Wait) -> None:
        """The wait goes on, and may have been told to see to its own end."""
        task = wait.task
        if self.records.comes("asyncio_abandoned"):
            self.report("asyncio_abandoned", task, "")
            self.wake(task, wait.generation)
        elif self.records.comes("timer_armed") and not any(timer.armed for timer in wait.timers):
            wait.timers.append(self.timers.arm(self.now_ns + self.cleanup_ns, TimerKind.CLEANUP, task))

    def on_task_done(self, id: int, *_: int) -> None:
        """Also where the end begins with what the task leaves behind: obligations, a cleanup."""
        task, nursery = self._acting(id), self._acting(id).nursery
        self.finish(task, cast("Outcome", _Ending(self.records, task, id in self._swallowed)))
        self._swallowed.discard(id)
        nursery.failures.clear()
        nursery.failed.clear()
        self._ended = task
        if task.credit_used or task.credit_of is not None:
            self._debtors[id] = task

    on_cleanup_ended = on_task_done

    # ---- timers and scopes

    def on_timer_armed(self, id: int, timer: int, generation: int, deadline_ns: int, kind: int) -> None:
        """For a sleep, perhaps one of several in a select; the others follow from something."""
        if not self._armed:
            self._billed()
        if deadline_ns <= self.now_ns:
            raise self.records.wrong(f"it is {self.now_ns:,} ns already: nobody waits for what has come")
        self._armed.append(self.timers.arm(deadline_ns, TimerKind.WAKE, self._acting(id)))

    def on_stale_timer(self, id: int, region: int, timer: int, generation: int) -> None:
        self.timer_fired(timer, generation)

    def on_scope_opened(self, id: int, shielded: int) -> None:
        task = self._acting(id)
        self._billed()
        block = Block(task)
        block.shielded = bool(shielded)
        self.note("scope_opened", task, block)
        armed = self.records.next
        if armed is not None and armed.name == "timer_armed" and armed.numbers[-1] == TimerKind.DEADLINE:
            block.timer = self.timers.arm(max(armed.numbers[3], self.now_ns), TimerKind.DEADLINE, task, block)

    def on_scope_left(self, id: int) -> None:
        block = self._acting(id).inner
        if not isinstance(block, Block) or block.body_of is not None:
            raise self.records.wrong(f"no timeout and no shield is the innermost open block of task {id}")
        cancel.leave(self, block)

    # ---- ownership

    def on_nursery_opened(self, id: int, region: int, *granted: int) -> None:
        self._number(region)
        self._billed()
        name = cast("Record", self.records.next).text.decode("utf-8", "replace")
        nursery = self.open_nursery(self._acting(id), budget=budget_of(granted))
        nursery.name = name
        nursery.cancel_on_failure = False  # whether it does is the program's choice: an act
        self._nurseries[region] = nursery

    def on_nursery_closing(self, id: int, region: int) -> None:
        self.close_nursery(self._owned(id, region))

    def on_nursery_closed(self, id: int, region: int, state: int) -> None:
        self.end_nursery(self._owned(id, region))
        del self._nurseries[region]

    def on_nursery_cancelling(self, id: int, region: int, cause: int, by: int) -> None:
        """The block of the nursery was asked before, or is behind a shield."""
        nursery = self._nurseries.get(region)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {region}")
        cancel.request_nursery(self, nursery, self._reason(cause, by, nursery))

    def on_cancel_requested(self, id: int, cause: int, by: int, depth: int) -> None:
        scopes = list(cancel.outward(self._live(id)))
        if depth >= len(scopes):
            raise self.records.wrong(f"task {id} has {len(scopes) - 1} open blocks")
        scope = scopes[len(scopes) - 1 - depth]
        reason = self._reason(cause, by, scope.body_of)
        if scope.body_of is not None:
            cancel.request_nursery(self, scope.body_of, reason)
        else:
            cancel.request(self, scope, reason)

    def _reason(self, cause: int, by: int, nursery: Nursery | None) -> CancelReason:
        """Who may ask for a cancellation, and in whose name. A timeout, a budget ask by themselves."""
        kind = CANCEL_KINDS[cause] if cause < len(CANCEL_KINDS) else None
        runs = NONE if self.current is None else self.current.id
        ended = self._ended
        match kind:
            case CancelKind.USER:
                fits = by == runs
            case CancelKind.PARENT:
                fits = by == runs != NONE and nursery is not None and nursery.owner is self.current
            case CancelKind.SIBLING if by == NONE:
                fits = nursery is not None and nursery.owner is self.current
            case CancelKind.SIBLING:
                failed = ended is not None and ended.outcome is not None and ended.outcome.kind in FAILURES
                fits = failed and ended is not None and ended.id == by and ended.nursery is nursery
            case CancelKind.SHUTDOWN:
                fits = by == runs == NONE
            case _:
                fits = False
        if not fits or kind is None:
            raise self.records.wrong("nobody could have asked for this, in this name and for this reason")
        text = cast("Record", self.records.next).text.decode("utf-8", "replace")
        return CancelReason(kind, text, None if by == NONE else by)

    def on_cancel_delivered(self, id: int, *_: int) -> None:
        cancel.deliver(self, self._acting(id))

    def on_cleanup_cut(self, id: int) -> None:
        """Because it ran out of operations; or nothing can wake anybody any more."""
        task = self._live(id)
        overran = task is self.current and task.cleanup_left >= 0
        stuck = self.current is None and not self.runnable and task.nursery is self.root
        if not overran and not stuck:
            raise self.records.wrong("the task does not clean up, or does not run")
        cancel.cut(self, task, "")

    def on_obligation_made(self, id: int, obligation: int, settled: int) -> None:
        self._number(obligation)
        what = cast("Record", self.records.next).text.decode("utf-8", "replace")
        self.promise(self._live(id), what, "", self._given_back)

    def on_obligation_settled(self, id: int, number: int, settled: int) -> None:
        if settled == Settled.LEAKED:
            self.on_task_done(id)
            return
        obligation = (self._live(id).obligations or {}).get(number)
        if obligation is None or settled == Settled.OPEN:
            raise self.records.wrong(f"task {id} has no open obligation {number}, or this does not settle it")
        obligation.settle(Settled(settled))

    def _given_back(self) -> None:
        """Whoever waits for what an obligation held gets it now."""
        while self.records.next is not None and self.records.next.name in OTHERS_WAKES:
            record = self.records.next
            getattr(self, "on_" + record.name)(*record.numbers)

    # ---- economy

    def on_charged(self, id: int, *amounts: int) -> None:
        task = self._acting(id)
        cost = tuple((component, amount) for component, amount in enumerate(amounts) if amount)
        if not cost or min(amounts) < 0:
            raise self.records.wrong("a charge is a positive amount")
        if cost != CHANNEL:  # these may be charged to a task that does not await
            self._awaits(task)
            if task.turn_left <= 0:
                raise self.records.wrong(f"the law would have ended the turn of task {id}")
        self.charge_now(task, cost)
        self.paid = cost

    def on_task_exhausted(self, id: int, component: int) -> None:
        task = self._acting(id)
        self._awaits(task)
        over = task.turn_left <= 0
        if over and component == PAID:
            self._exhausted(task, PAID)
            self._ready(task)
            return
        if over or not 0 <= component < len(task.pools) or component in (MEMORY, SPAWNS) or task.cleanup_left >= 0:
            raise self.records.wrong("the law would not have stopped the task for this")
        left = task.pools[component].left
        if left is None:
            raise self.records.wrong("the task draws on a purse that never runs dry")
        self._run_dry(task, component, ((component, left + 1),))

    def on_minted(self, id: int, *amounts: int) -> None:
        if self.current is None:
            raise self.records.wrong("no task runs that could hold a CapBudget")
        self._require_countable(self._live(id), budget_of(amounts))
        self._mint(self._live(id), budget_of(amounts))

    def on_recharged(self, id: int, *amounts: int) -> None:
        """By the owner of the nursery: out of its purse, and if that is too small out of the owner's own."""
        task = self._live(id)
        owner = task.nursery.owner
        if owner is None or owner is not self.current:
            raise self.records.wrong(f"only the owner of {task.nursery.name} recharges out of its purse")
        try:
            self._recharge_from(task.nursery.pools, task, amounts)
        except BudgetExceeded:
            self._recharge_from(owner.pools, task, amounts)

    def _recharge_from(self, sources: Pools, task: Task, amounts: Sequence[int]) -> None:
        self.recharge(task, sources, budget_of(amounts))

    # ---- what changes nothing

    def _by_the_running(self, id: int) -> None:
        self._acting(id)
        self.records.advance()

    on_failure_unraised = _by_the_running
    on_result_lost = _by_the_running
    on_asyncgen_failed = _by_the_running
    on_cleanup_failed = _by_the_running
    on_cleanup_ignored = _by_the_running
    on_connection_lost = _by_the_running

    def on_cancel_swallowed(self, id: int) -> None:
        if self._acting(id).phase is not CancelPhase.DRAINING or id in self._swallowed:
            raise self.records.wrong("the task was not told to stop, or this was told before")
        self._swallowed.add(id)
        self.records.advance()
