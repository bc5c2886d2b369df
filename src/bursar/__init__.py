"""Bursar: a task scheduler in which every task belongs to a nursery, carries a budget, does only what its capabilities
allow, and waits for permission instead of competing for time. This file holds the public names, nothing else.

Packages that most programs do without are not loaded: `bursar.workflow`, `bursar.evidence`, `bursar.asyncio`, trace
files. A program imports them by name, and `Runtime` when a keyword asks for them.

Rejected: a module `__getattr__` that loads the rest on first use. While a module has one, CPython does not specialize
any access to its attributes, and `await bursar.checkpoint()` took a fifth more instructions.
"""

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
from bursar.fibers.function import NativeFunction, native
from bursar.io.connect import open_tcp, open_unix
from bursar.io.files import wait_readable, wait_writable
from bursar.io.serve import Listener, listen_tcp, listen_unix, serve
from bursar.io.signals import wait_signal
from bursar.io.streams import Stream
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
from bursar.ops.explain import Explanation
from bursar.ops.introspection import Snapshot
from bursar.ops.nursery import Nursery, nursery
from bursar.ops.scope import shield, timeout
from bursar.ops.select import Selected, select
from bursar.ops.statistics import Statistics
from bursar.ops.sync import Event, Lock, Semaphore
from bursar.ops.task import Task, checkpoint, current_task
from bursar.runtime import Cleanup, Runtime, run
from bursar.supervision.actor import Actor, Call, Mailbox, actor
from bursar.supervision.supervisor import Child, Supervisor, supervisor
from bursar.threads.portal import Portal, portal

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
