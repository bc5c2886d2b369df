"""Bursar: a task scheduler in which every task belongs to a nursery, carries a budget, does only what its capabilities
allow, and waits for permission instead of competing for time. This file holds the public names, nothing else.

What most programs do without is loaded when its name is first used: networking, supervision, C functions, portals,
snapshots, statistics.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from bursar.errors import (
    BadDependency,
    BudgetExceeded,
    BursarError,
    Cancelled,
    CapabilityDenied,
    CapabilityForged,
    CapabilityRevoked,
    ChannelClosed,
    CommandFailed,
    Deadlock,
    DelimiterNotFound,
    Divergence,
    ForeignAwait,
    HostLost,
    HostMisuse,
    InfeasibleDemand,
    JournalError,
    MemoryBudgetExceeded,
    NativeFailed,
    NativePanic,
    NativeUnavailable,
    NotBuilt,
    NurseryClosed,
    PauseTimeout,
    ProfileError,
    PromiseRejected,
    RestartLimitExceeded,
    ResultNotReady,
    RuntimeUsed,
    ScopeMisuse,
    SpawnBudgetExceeded,
    StreamClosed,
    StreamEnded,
    TaskCancelled,
    TaskDropped,
    TaskPanicked,
    ThreadLost,
    TraceCut,
    TraceError,
    WorkflowError,
    WouldBlock,
)
from bursar.law.admission.authority import Aging, Authority, Priority, Strict
from bursar.law.admission.resources import Hard, Soft
from bursar.law.admission.retry import Retry
from bursar.law.budget import Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.capability import (
    Capability,
    CapBudget,
    CapChannel,
    CapClock,
    CapEntropy,
    CapExecutor,
    CapIO,
    CapSpawn,
    CapTimer,
)
from bursar.law.dispatch import Report
from bursar.law.nursery import NurseryState
from bursar.law.state import Outcome, OutcomeKind, State
from bursar.ops.budget import charge, recharge
from bursar.ops.capability import capabilities, revoke
from bursar.ops.channel import ReceiveEnd, Reservation, SendEnd, channel
from bursar.ops.checkpoint import Checkpoint
from bursar.ops.clock import now, sleep, sleep_until
from bursar.ops.entropy import entropy, host_entropy
from bursar.ops.nursery import Nursery, nursery
from bursar.ops.scope import shield, timeout
from bursar.ops.select import Selected, select
from bursar.ops.sync import Event, Lock, Semaphore
from bursar.ops.task import Task, checkpoint, current_task
from bursar.runtime import Cleanup, Runtime, run

if _TYPE_CHECKING:
    from bursar.fibers.function import NativeFunction as NativeFunction
    from bursar.fibers.function import native as native
    from bursar.io.connect import open_tcp as open_tcp
    from bursar.io.connect import open_unix as open_unix
    from bursar.io.files import wait_readable as wait_readable
    from bursar.io.files import wait_writable as wait_writable
    from bursar.io.serve import Listener as Listener
    from bursar.io.serve import listen_tcp as listen_tcp
    from bursar.io.serve import listen_unix as listen_unix
    from bursar.io.serve import serve as serve
    from bursar.io.signals import wait_signal as wait_signal
    from bursar.io.streams import Stream as Stream
    from bursar.ops.introspection import Explanation as Explanation
    from bursar.ops.introspection import Snapshot as Snapshot
    from bursar.ops.statistics import Statistics as Statistics
    from bursar.supervision.actor import Actor as Actor
    from bursar.supervision.actor import Call as Call
    from bursar.supervision.actor import Mailbox as Mailbox
    from bursar.supervision.actor import actor as actor
    from bursar.supervision.supervisor import Child as Child
    from bursar.supervision.supervisor import Supervisor as Supervisor
    from bursar.supervision.supervisor import supervisor as supervisor
    from bursar.threads.portal import Portal as Portal
    from bursar.threads.portal import portal as portal

_ON_FIRST_USE = {
    "bursar.fibers.function": ("NativeFunction", "native"),
    "bursar.io.connect": ("open_tcp", "open_unix"),
    "bursar.io.files": ("wait_readable", "wait_writable"),
    "bursar.io.serve": ("Listener", "listen_tcp", "listen_unix", "serve"),
    "bursar.io.signals": ("wait_signal",),
    "bursar.io.streams": ("Stream",),
    "bursar.ops.introspection": ("Explanation", "Snapshot"),
    "bursar.ops.statistics": ("Statistics",),
    "bursar.supervision.actor": ("Actor", "Call", "Mailbox", "actor"),
    "bursar.supervision.supervisor": ("Child", "Supervisor", "supervisor"),
    "bursar.threads.portal": ("Portal", "portal"),
}
_HOMES = {name: module for module, names in _ON_FIRST_USE.items() for name in names}


def __getattr__(name: str) -> _Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "Actor",
    "Aging",
    "Authority",
    "BadDependency",
    "Budget",
    "BudgetExceeded",
    "BursarError",
    "Call",
    "CancelKind",
    "CancelReason",
    "Cancelled",
    "CapBudget",
    "CapChannel",
    "CapClock",
    "CapEntropy",
    "CapExecutor",
    "CapIO",
    "CapSpawn",
    "CapTimer",
    "Capability",
    "CapabilityDenied",
    "CapabilityForged",
    "CapabilityRevoked",
    "ChannelClosed",
    "Checkpoint",
    "Child",
    "Cleanup",
    "CommandFailed",
    "Deadlock",
    "DelimiterNotFound",
    "Divergence",
    "Event",
    "Explanation",
    "ForeignAwait",
    "Hard",
    "HostLost",
    "HostMisuse",
    "InfeasibleDemand",
    "JournalError",
    "Listener",
    "Lock",
    "Mailbox",
    "MemoryBudgetExceeded",
    "NativeFailed",
    "NativeFunction",
    "NativePanic",
    "NativeUnavailable",
    "NotBuilt",
    "Nursery",
    "NurseryClosed",
    "NurseryState",
    "Outcome",
    "OutcomeKind",
    "PauseTimeout",
    "Portal",
    "Priority",
    "ProfileError",
    "PromiseRejected",
    "ReceiveEnd",
    "Report",
    "Reservation",
    "RestartLimitExceeded",
    "ResultNotReady",
    "Retry",
    "Runtime",
    "RuntimeUsed",
    "ScopeMisuse",
    "Selected",
    "Semaphore",
    "SendEnd",
    "Snapshot",
    "Soft",
    "SpawnBudgetExceeded",
    "State",
    "Statistics",
    "Stream",
    "StreamClosed",
    "StreamEnded",
    "Strict",
    "Supervisor",
    "Task",
    "TaskCancelled",
    "TaskDropped",
    "TaskPanicked",
    "ThreadLost",
    "TraceCut",
    "TraceError",
    "WorkflowError",
    "WouldBlock",
    "actor",
    "capabilities",
    "channel",
    "charge",
    "checkpoint",
    "current_task",
    "entropy",
    "host_entropy",
    "listen_tcp",
    "listen_unix",
    "native",
    "now",
    "nursery",
    "open_tcp",
    "open_unix",
    "portal",
    "recharge",
    "revoke",
    "run",
    "select",
    "serve",
    "shield",
    "sleep",
    "sleep_until",
    "supervisor",
    "timeout",
    "wait_readable",
    "wait_signal",
    "wait_writable",
]
