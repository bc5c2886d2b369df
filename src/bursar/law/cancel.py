"""Cancellation: request → drain → finalize.

A *scope* is a block of a task that can be cancelled as a whole: the task itself, a timeout,
a shield, the body of a nursery. Scopes of one task form a stack; `scope.parent` is the next outer one.

    IDLE ──request──► REQUESTED ──delivered at an await point──► DRAINING ──block left──► FINALIZED

*Request*: carries a reason. It reaches every nursery opened inside the scope, their children, the nurseries of these
children, and so on, but nothing behind a shield. *Drain*: `Cancelled` is thrown once, where the task awaits.
*Finalize*: cleanup code may await, within the cleanup allowance (ops and time). A task that overruns its allowance is
cut: the driver closes its coroutine.

CANCEL-1  a scope is requested at most once and delivers at most once, and not at all once an outer one has
CANCEL-2  a request is never delivered through a shield that is inside its scope
CANCEL-3  an operation that took effect returns its result: cancellation is delivered before the next one
CANCEL-4  a task that is asked to stop, or cleans up, is in the cancel lane when it is runnable

A request spreads by a loop over a queue, not by recursion: a hundred thousand nested nurseries are legal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from bursar.errors import Cancelled, ScopeMisuse
from bursar.law.cleanup import begin_cleanup, end_cleanup, pause_cleanup
from bursar.law.nursery import Nursery, NurseryState
from bursar.law.nursery import move as move_nursery
from bursar.law.state import State
from bursar.text import NamedInt, brief

if TYPE_CHECKING:
    from bursar.law.ledger import Ledger
    from bursar.law.task import Task
    from bursar.law.timers import Timer


class CancelKind(StrEnum):
    """Why something is cancelled.

    `USER`: the program called `cancel`. `TIMEOUT`: a timeout ended. `PARENT`: the nursery or task above was cancelled.
    `SIBLING`: another task of the nursery failed, or the body of its block. `BUDGET`: the budget is spent. `DROP`: the
    task was dropped before it started. `SHUTDOWN`: the run ends, for example after a deadlock. `DEPENDENCY`: a task
    that it depends on did not succeed.
    """

    USER = "user"
    TIMEOUT = "timeout"
    PARENT = "parent"
    SIBLING = "sibling"
    BUDGET = "budget"
    DROP = "drop"
    SHUTDOWN = "shutdown"
    DEPENDENCY = "dependency"  # a dependency of the task did not succeed


@dataclass(frozen=True, slots=True, eq=False)
class CancelReason:
    """Why something was cancelled. Compared by identity.

    Attributes:
        kind: A `CancelKind`.
        detail: The reason in words.
        by: The id of the task that asked; None for the host or the user outside.
    """

    kind: CancelKind
    detail: str = ""
    by: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {brief(self.detail)}" if self.detail else str(self.kind)

    def __repr__(self) -> str:
        detail = f", {brief(self.detail, repr)}" if self.detail else ""
        by = f", by={self.by}" if self.by is not None else ""
        return f"CancelReason({self.kind.name}{detail}{by})"


class CancelPhase(NamedInt):
    """How far the cancellation of a scope has come."""

    IDLE = 0
    REQUESTED = 1
    DRAINING = 2
    FINALIZED = 3


class Scope:
    """Something of one task that can be cancelled as a whole: a block, or the task itself."""

    __slots__ = ("body_of", "exiting", "parent", "phase", "reason", "shielded", "timer")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent  # the next outer scope of the same task; None for the task itself
        self.phase = CancelPhase.IDLE
        self.reason: CancelReason | None = None
        self.shielded = False  # code inside it does not see requests from outside
        self.exiting = False  # the block only waits for its children, so there is nothing to interrupt
        self.timer: Timer | None = None
        self.body_of: Nursery | None = None

    @property
    def task(self) -> Task:
        raise NotImplementedError


class CancelScope(Scope):
    """A scope inside a task: a timeout, a shield, the body of a nursery."""

    __slots__ = ("_task",)

    def __init__(self, task: Task) -> None:
        super().__init__(task.inner or task)
        self._task = task
        task.inner = self

    @property
    def task(self) -> Task:
        return self._task


def outward(task: Task) -> Iterator[Scope]:
    """The scopes of a task, from the innermost to the task itself."""
    scope: Scope | None = task.inner or task
    while scope is not None:
        yield scope
        scope = scope.parent


def move(scope: Scope, to: CancelPhase) -> None:
    """Change the phase of a scope, forward only, and keep the counts of requested and draining scopes in its task.

    Because of these counts, leaving a block costs O(1), however many blocks are open around it.
    """
    if scope.phase >= to:
        assert scope.phase is to, "CANCEL-1"
        return
    task = scope.task
    task.requested += (to is CancelPhase.REQUESTED) - (scope.phase is CancelPhase.REQUESTED)
    task.draining += (to is CancelPhase.DRAINING) - (scope.phase is CancelPhase.DRAINING)
    scope.phase = to


def look(task: Task) -> None:
    """Note whether the innermost scope of the task can see a request."""
    task.cancel_pending = task.requested > 0 and deliverable(task) is not None


def require_innermost(kernel: Ledger, block: CancelScope) -> None:
    """Raise unless the running task may leave the block now."""
    task = block.task
    if task.inner is not block or kernel.current not in (task, None):
        raise ScopeMisuse(
            f"task {task.name!r}: a timeout, shield or nursery was left before one that was opened inside it; "
            "blocks must end in the reverse order of their beginning, in the task that began them"
        )


def leave(kernel: Ledger, block: CancelScope) -> None:
    """Close the innermost block. What it hid (a shield) becomes visible at the next await."""
    task = block.task
    require_innermost(kernel, block)
    if block.body_of is None:  # the end of a nursery is an event of its own
        kernel.note("scope_left", task)
    task.inner = None if block.parent is task else cast("CancelScope", block.parent)
    if block.timer is not None:
        kernel.timers.disarm(block.timer)
    was_draining = block.phase is CancelPhase.DRAINING
    move(block, CancelPhase.FINALIZED)
    look(task)
    if was_draining and not task.draining:
        end_cleanup(kernel, task)


def leave_all(kernel: Ledger, task: Task) -> None:
    """The task has ended: close the blocks that it did not leave."""
    while task.inner is not None:
        leave(kernel, task.inner)
    if task.phase is not CancelPhase.IDLE:
        move(task, CancelPhase.FINALIZED)
    task.cancel_pending = False
    end_cleanup(kernel, task)


def deliverable(task: Task) -> Scope | None:
    """The outermost requested scope that the task's innermost scope can see (CANCEL-2)."""
    found = None
    for scope in outward(task):
        if scope.phase is CancelPhase.REQUESTED and not scope.exiting:
            found = scope
        if scope.shielded:
            break
    return found


def deliver(kernel: Ledger, task: Task) -> Cancelled | None:
    """The `Cancelled` to throw into the task now, or None. Starts the cleanup of the task (CANCEL-1)."""
    scope = deliverable(task)
    if scope is None:
        task.cancel_pending = False
        return None
    assert scope.reason is not None, "a request has a reason"
    for inner in outward(task):  # this request unwinds the inner blocks too, so their own requests have no use
        move(inner, CancelPhase.DRAINING)
        if inner is scope:
            break
    look(task)
    kernel.note("cancel_delivered", task, scope.reason)
    begin_cleanup(kernel, task)
    return Cancelled(scope.reason)


def request(kernel: Ledger, scope: Scope, reason: CancelReason) -> None:
    """Ask a scope and everything it owns to stop."""
    pending: deque[tuple[Scope, CancelReason]] = deque([(scope, reason)])
    while pending:
        scope, reason = pending.popleft()
        if scope.phase is not CancelPhase.IDLE:
            continue  # CANCEL-1
        if scope.task.state is State.DONE:
            continue
        move(scope, CancelPhase.REQUESTED)
        scope.reason = reason
        kernel.note("cancel_requested", scope.task, reason)
        for nursery in _interrupt(kernel, scope):
            is_target = nursery.scope is scope  # the request was for this nursery itself
            pending.extend(_stop_nursery(kernel, nursery, reason, is_target))


def request_nursery(kernel: Ledger, nursery: Nursery, reason: CancelReason) -> None:
    """Cancel a nursery: its children, and the body of its block in the owner. Idempotent."""
    if nursery.state not in (NurseryState.OPEN, NurseryState.CLOSING):
        return
    if nursery.scope is not None:
        request(kernel, nursery.scope, reason)
    for scope, why in _stop_nursery(kernel, nursery, reason, is_target=True):
        request(kernel, scope, why)


def _interrupt(kernel: Ledger, scope: Scope) -> list[Nursery]:
    """Interrupt the task, if no shield hides the request. Returns the nurseries that the request reaches."""
    task = scope.task
    reached: list[Nursery] = []
    hidden = False
    for inner in outward(task):
        if inner.body_of is not None:
            reached.append(inner.body_of)
        if inner is scope:
            break
        if inner.shielded and task.state is State.EXHAUSTED:
            inner.shielded = False  # on hold, the task cannot run, and a cancelled task gets no recharge
        elif inner.shielded:
            hidden = True
            reached.clear()
    if not hidden and not scope.exiting:
        task.cancel_pending = True
        kernel.interrupt(task)
    return reached


def _stop_nursery(
    kernel: Ledger, nursery: Nursery, reason: CancelReason, is_target: bool
) -> Sequence[tuple[Scope, CancelReason]]:
    """Move a nursery to CANCELLING; its children come next.

    If a sibling failed, the children get a reason of kind SIBLING; otherwise of kind PARENT. The detail is passed on
    unchanged, so that a reason does not grow with the depth of the tree.
    """
    if nursery.state not in (NurseryState.OPEN, NurseryState.CLOSING):
        return []
    move_nursery(nursery, NurseryState.CANCELLING)
    kernel.draining_nurseries += 1
    nursery.reason = reason
    kernel.note("nursery_cancelling", nursery.owner, nursery)
    if nursery.scope is not None and nursery.scope.exiting and nursery.owner is not None:
        pause_cleanup(kernel, nursery.owner)
    by = nursery.owner.id if nursery.owner is not None else None
    inherited = reason.kind in (CancelKind.PARENT, CancelKind.SIBLING)
    detail = reason.detail if inherited else f"{nursery.name} is cancelled ({reason})"
    kind = CancelKind.SIBLING if is_target and reason.kind is CancelKind.SIBLING else CancelKind.PARENT
    why = CancelReason(kind, detail, by)
    return [(child, why) for child in nursery.children.values()]


def cut(kernel: Ledger, task: Task, why: str) -> None:
    """Cut a task that overran its cleanup, and every task below it.

    The law only marks the tasks. A marked task goes to the cancel lane, and the driver closes its coroutine instead of
    resuming it. A marked task with live children waits for them first, so the deepest task is closed first.
    """
    kernel.report("cleanup_cut", task, why)
    pending = deque([task])
    while pending:
        victim = pending.popleft()
        if victim.cut:
            continue
        victim.cut = True
        reason = CancelReason(CancelKind.PARENT, f"task {victim.name!r} was cut off", victim.id)
        for nursery in list((victim.owned or {}).values()):
            request_nursery(kernel, nursery, reason)  # no task may spawn into it any more
            pending.extend(nursery.children.values())
        kernel.interrupt(victim)


def why_ended(task: Task) -> CancelReason:
    """The reason in the outcome of a cancelled task: that of its outermost scope that was asked to stop."""
    asked = [scope.reason for scope in outward(task) if scope.reason is not None]
    return asked[-1] if asked else CancelReason(CancelKind.SHUTDOWN, "the task was closed")
