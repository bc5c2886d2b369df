"""The record of one task: every field that the law keeps about it, in one flat object.

A task is the outermost of its own scopes, so the record is a `Scope`. Blocks in the task (timeouts, shields, nursery
bodies) open inner scopes. Users hold the handle, `bursar.Task`, which reads the record.

Only `law.state` writes `state` and `outcome`, only `law.wake` counts `generation`, and only `law.lanes` writes `lane`
and `queue`. A task keeps its pools; `law.pool` changes what is in them. `work`, `context` and `unpaid_request` belong
to the driver. The law only clears them, and closes the work of a task that never starts.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from bursar.law.budget import COMPONENTS
from bursar.law.cancel import Scope
from bursar.law.state import Outcome, State
from bursar.law.wake import Wait, WaitList, WakeState

if TYPE_CHECKING:
    from bursar.law.cancel import CancelScope
    from bursar.law.capability import Capabilities, CapSpawn
    from bursar.law.lanes import Lane
    from bursar.law.nursery import Nursery
    from bursar.law.obligation import Obligation
    from bursar.law.permission import Ticket
    from bursar.law.pool import Pools
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
        "cpu_due",
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
        "named_spent",
        "nursery",
        "obligations",
        "outcome",
        "owned",
        "pinned",
        "pools",
        "purse_of",
        "queue",
        "requested",
        "short_of",
        "since_ns",
        "spawn_cap",
        "spent",
        "started",
        "state",
        "ticket",
        "turn_left",
        "unpaid_request",
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
        self.queue: Any = None  # the container that holds its one queue entry
        self.worker = -1  # the worker on which it ran last, or to which it is pinned; -1 = none yet
        self.pinned = False
        self.started = False
        # waiting
        self.wait: Wait | None = None  # Invariant: set exactly while BLOCKED
        self.since_ns = 0  # when it entered its state
        self.inbox: Any = None  # the value that the next poll resumes with
        self.error: BaseException | None = None  # the error that the next poll raises instead
        self.effect = False  # the inbox holds the result of an operation that took effect
        self.waiters: WaitList | None = None  # the waits for its end
        # ownership
        self.owned: dict[int, Nursery] | None = None  # the nurseries it has open, outermost first
        self.obligations: dict[int, Obligation] | None = None
        self.inner: CancelScope | None = None  # the innermost open block; None: the task itself
        self.requested = 0  # how many of its scopes have a request that is not delivered yet
        self.draining = 0  # how many of its scopes have a delivered request and are being unwound
        self.cancel_pending = False  # its innermost scope can see a request
        self.cleanup_left = -1  # ops left for cleanup; -1 = not cleaning up
        self.cleanup_left_ns = 0  # time left for cleanup, while the timer does not run
        self.cleanup_timer: Timer | None = None
        self.cut = False  # overran its cleanup: the driver closes it instead of resuming it
        self.ending: Outcome | None = None  # its outcome, kept while it still owns live children
        # economy
        self.pools = pools
        self.purse_of = nursery.pools  # the pools that lent to its own pools
        self.credit_used = 0  # ops of cleanup that it, or a task that cleans up for it, could not pay
        self.credit_of: Task | None = None  # the task whose credit it uses; None: its own
        self.spent = array("q", _NOTHING)  # by component; an array, which the collector does not visit
        self.named_spent: dict[str, int] | None = None  # what it has spent of named counters
        self.cpu_due = 0  # nanoseconds of processor time that it has used and could not pay
        self.turn_left = 0
        self.short_of = -1  # the component that it could not pay; -1 = its turn was over
        self.capabilities = capabilities
        self.spawn_cap: CapSpawn | None = None  # the capability that it counts against until it ends
        # admission
        self.ticket: Ticket | None = None  # its ticket; None: it needed no admission
        # execution
        self.work: Any = None
        self.context: Any = None
        self.unpaid_request: Any = None  # the request that it could not pay yet

    @property
    def task(self) -> Task:
        return self

    def has_children(self) -> bool:
        """Whether a nursery that the task owns has live children."""
        return self.owned is not None and any(nursery.children for nursery in self.owned.values())

    def __repr__(self) -> str:
        return f"<task {self.id} {self.name!r} {self.state.name}>"
