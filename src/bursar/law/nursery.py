"""Nurseries: which task owns which, and when a nursery block may end.

    OPEN ──seal, or the block has ended and no child lives──► CLOSING ──await, quiescent──► CLOSED
      │                                                          │
      └────────────────────────── cancel ────────────────────────┴──► CANCELLING ──await, quiescent──► CANCELLED

The end of the block does not close a nursery with living children, so these can spawn siblings. Rejected: to close
every nursery at the end of its block. A server or a crawler, whose tasks spawn the next ones, could then not be written
without an idle body. A program can still ask for it (`sealed`), and the profile `sovereign` does.

NURSERY-1  every live task is a child of exactly one nursery; only the root nursery has no owner
NURSERY-2  a nursery takes children only while OPEN
NURSERY-3  a terminal state is reached only by the owner's await, and only without live children (quiescence)
NURSERY-4  the first failure of any kind is the result and keeps its kind; then cancelled; then dropped; then ok
NURSERY-5  a nursery whose block has ended is OPEN only while a child lives

The owner and the nursery refer to each other. The task lists its nurseries. The nursery names its owner, and holds the
scope through which a cancellation of the owner reaches the children.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from bursar.errors import IllegalTransition
from bursar.law.state import Outcome, OutcomeKind
from bursar.text import NamedInt

if TYPE_CHECKING:
    from bursar.law.admission.drops import Drops
    from bursar.law.cancel import CancelReason, CancelScope
    from bursar.law.capability import Capabilities
    from bursar.law.pool import Pools
    from bursar.law.task import Task
    from bursar.law.wake import Wait


class NurseryState(NamedInt):
    """The state of a nursery. The C interface uses the same numbers.

    `OPEN`: takes tasks. `CLOSING`: takes no more tasks, because it was sealed, or its block and its last task have
    ended. `CANCELLING`: was cancelled. `CLOSED` and `CANCELLED` are the ends.
    """

    OPEN = 0
    CLOSING = 1
    CANCELLING = 2
    CLOSED = 3
    CANCELLED = 4

    @property
    def terminal(self) -> bool:
        """Whether the nursery has ended."""
        return self >= NurseryState.CLOSED


TRANSITIONS: dict[NurseryState, frozenset[NurseryState]] = {
    NurseryState.OPEN: frozenset({NurseryState.CLOSING, NurseryState.CANCELLING}),
    NurseryState.CLOSING: frozenset({NurseryState.CLOSED, NurseryState.CANCELLING}),
    NurseryState.CANCELLING: frozenset({NurseryState.CANCELLED}),
    NurseryState.CLOSED: frozenset(),
    NurseryState.CANCELLED: frozenset(),
}


class Nursery:
    """The law's record of one nursery."""

    __slots__ = (
        "cancel_on_failure",
        "capabilities",
        "children",
        "drops",
        "ends",
        "ends_waiter",
        "exhausted",
        "exhausted_waiter",
        "explicit",
        "failed",
        "failures",
        "gate",
        "hold",
        "id",
        "joining",
        "name",
        "owner",
        "pools",
        "purse_of",
        "reason",
        "scope",
        "sealed",
        "spawned",
        "state",
    )

    def __init__(
        self,
        id: int,
        name: str,
        owner: Task | None,
        pools: Pools,
        purse_of: Pools,
        capabilities: Capabilities,
    ) -> None:
        self.id = id
        self.name = name
        self.owner = owner
        self.scope: CancelScope | None = None  # None only in the root
        self.state = NurseryState.OPEN
        self.children: dict[int, Task] = {}  # the live children, in order of spawning
        self.spawned = 0
        self.failures: list[BaseException] = []  # first failure first, each error once
        self.failed: set[int] = set()  # the identities of these errors
        self.reason: CancelReason | None = None
        self.joining: Wait | None = None  # the owner's wait until no child is left
        self.pools = pools
        self.purse_of = purse_of  # the pools that lent to its own pools
        self.capabilities = capabilities
        self.explicit = False  # its capabilities were named when it was opened
        self.cancel_on_failure = True
        self.sealed = False  # the end of its block seals it; in the root: the default of the other nurseries
        self.gate: Any = None  # the gate that admits its children; None: they start at once
        self.drops: Drops | None = None  # the unread drops of its children; None: no child was dropped
        self.hold = False  # an exhausted child waits for a recharge instead of ending
        self.exhausted: dict[int, Task] = {}  # children on hold, longest first
        self.exhausted_waiter: Wait | None = None
        self.ends: deque[Task] | None = None  # only if supervised: ended children that the supervisor has not seen
        self.ends_waiter: Wait | None = None

    def __repr__(self) -> str:
        return f"<nursery {self.id} {self.name!r} {self.state.name}>"


def move(nursery: Nursery, to: NurseryState) -> None:
    """Change the state of a nursery, if the diagram above allows it."""
    if to not in TRANSITIONS[nursery.state]:
        raise IllegalTransition(f"{nursery!r} cannot become {to.name}")
    assert not to.terminal or not nursery.children, "NURSERY-3"
    nursery.state = to


def close_if_over(nursery: Nursery) -> None:
    """Make a nursery CLOSING whose block has ended and whose last child has ended (NURSERY-5)."""
    exiting = nursery.scope is not None and nursery.scope.exiting
    if exiting and nursery.state is NurseryState.OPEN and not nursery.children:
        move(nursery, NurseryState.CLOSING)


def result_kind(nursery: Nursery) -> OutcomeKind:
    """The result of the whole nursery (NURSERY-4)."""
    if nursery.failures:
        first = nursery.failures[0]
        return OutcomeKind.FAILED if isinstance(first, Exception) else OutcomeKind.PANICKED
    if nursery.reason is not None:
        return OutcomeKind.CANCELLED
    if nursery.drops is not None and nursery.drops.raises and nursery.drops.unread:
        return OutcomeKind.DROPPED
    return OutcomeKind.OK


def note_end(nursery: Nursery, task: Task, outcome: Outcome) -> bool:
    """Take a DONE child off the nursery. Returns True if it failed and its siblings must be cancelled.

    In a supervised nursery no end is a failure of the nursery: the supervisor decides what follows. An excused failure
    does not count either, because another attempt follows.
    """
    del nursery.children[task.id]
    nursery.exhausted.pop(task.id, None)
    if nursery.ends is not None:
        nursery.ends.append(task)
        return False
    if outcome.kind not in (OutcomeKind.FAILED, OutcomeKind.PANICKED):
        return False
    if task.ticket is not None and task.ticket.excused:
        return False
    assert outcome.error is not None, "a failure has an error"
    add_failure(nursery, outcome.error)
    return nursery.cancel_on_failure


def add_failure(nursery: Nursery, error: BaseException) -> None:
    """Note a failure. An error counts once, even if a task that awaited the failed one raises it again."""
    if id(error) not in nursery.failed:
        nursery.failed.add(id(error))
        nursery.failures.append(error)
