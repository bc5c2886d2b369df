"""The record of one task: every field that the law keeps about it, in one flat object.

A task is itself the outermost of its cancellation scopes, so the record is a `Scope`; inside it blocks (timeouts,
shields, nursery bodies) open further ones. Users hold `bursar.Task`, which looks at one of these.

Who may write what: `state` and `outcome` only `law.state`, `wake` and `generation` only `law.wake`, the lane
fields only `law.lanes`, the money only `law.budget`. `work`, `context` and `retry` belong to whoever executes
the task and mean nothing to the law.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from bursar.law.budget import COMPONENTS
from bursar.law.cancel import Scope
from bursar.law.state import Outcome, State
from bursar.law.wake import Wait, WaitList, WakeState

if TYPE_CHECKING:
    from bursar.law.budget import Pools
    from bursar.law.cancel import CancelScope
    from bursar.law.capability import Capabilities, CapSpawn
    from bursar.law.lanes import Lane
    from bursar.law.nursery import Nursery
    from bursar.law.obligation import Obligation
    from bursar.law.permission import Ticket
    from bursar.law.timers import Timer

_NOTHING: Final = array("q", [0] * len(COMPONENTS))


class Task(Scope):
    """One task."""

    __slots__ = (
        "cancel_pending",
        "capabilities",
        "cleanup_left",
        "cleanup_left_ns",
        "cleanup_timer",
        "context",
        "credit_of",
        "credit_used",
        "cut",
        "draining",
        "effect",
        "ending",
        "error",
        "generation",
        "id",
        "inbox",
        "inner",
        "lane",
        "name",
        "nursery",
        "obligations",
        "outcome",
        "owned",
        "pinned",
        "pools",
        "purse_of",
        "queue",
        "requested",
        "retry",
        "short_of",
        "since_ns",
        "spawn_cap",
        "spent",
        "started",
        "state",
        "ticket",
        "turn_left",
        "wait",
        "waiters",
        "wake",
        "work",
        "worker",
    )

    def __init__(self, id: int, name: str, nursery: Nursery, pools: Pools, capabilities: Capabilities) -> None:
        super().__init__(None)
        self.id = id
        self.name = name
        self.nursery = nursery
        self.state = State.PENDING
        self.outcome: Outcome | None = None
        # dispatch
        self.wake = WakeState.IDLE
        self.generation = 0  # counts polls: a wake meant for an earlier poll is stale
        self.lane: Lane | None = None  # Invariant: set exactly while the task is queued
        self.queue: Any = None  # the container that holds its one entry
        self.worker = -1  # where it ran last, or is pinned to; -1 = nowhere yet
        self.pinned = False
        self.started = False
        # waiting
        self.wait: Wait | None = None  # Invariant: set exactly while BLOCKED
        self.since_ns = 0  # when it entered its state
        self.inbox: Any = None  # what the next poll resumes with
        self.error: BaseException | None = None  # or what it is resumed by
        self.effect = False  # the inbox holds the result of an operation that took place
        self.waiters: WaitList | None = None  # who waits for its end
        # ownership
        self.owned: dict[int, Nursery] | None = None  # the nurseries it has open, outermost first
        self.obligations: dict[int, Obligation] | None = None
        self.inner: CancelScope | None = None  # the innermost open block; None: the task itself
        self.requested = 0  # scopes of it that were asked to stop and not told yet
        self.draining = 0  # and those that were told and are being unwound
        self.cancel_pending = False  # a request is visible from where it stands
        self.cleanup_left = -1  # ops left for cleanup; -1 = not finalizing
        self.cleanup_left_ns = 0  # and time, while the timer does not run
        self.cleanup_timer: Timer | None = None
        self.cut = False  # overran its cleanup: to be closed, not resumed
        self.ending: Outcome | None = None  # decided, but it still owns live children
        # economy
        self.pools = pools
        self.purse_of = nursery.pools  # the pools that its own were lent from
        self.credit_used = 0  # ops of cleanup that it, or whoever tidies up for it, could not pay
        self.credit_of: Task | None = None  # whose credit it uses; None: its own
        self.spent = array("q", _NOTHING)  # by component; an array, so that the collector need not look inside
        self.turn_left = 0
        self.short_of = -1  # the component it could not pay; -1 = its turn was over
        self.capabilities = capabilities
        self.spawn_cap: CapSpawn | None = None  # counted against until the task ends
        # admission
        self.ticket: Ticket | None = None  # what admission knows of it; None: it never had to ask
        # execution
        self.work: Any = None
        self.context: Any = None
        self.retry: Any = None  # what it asked for and could not pay yet

    @property
    def task(self) -> Task:
        return self

    def has_children(self) -> bool:
        """Whether any nursery that it owns has live children."""
        return self.owned is not None and any(nursery.children for nursery in self.owned.values())

    def __repr__(self) -> str:
        return f"<task {self.id} {self.name!r} {self.state.name}>"
