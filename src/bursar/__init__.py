"""Bursar: a task scheduler in which every task belongs to a nursery, carries a budget, does only what its capabilities
allow, and waits for permission instead of competing for time. This file holds the public names, nothing else."""

from bursar.actor import Actor, Call, Mailbox, actor
from bursar.admission import Aging, Authority, Hard, Priority, Retry, Soft, Strict
from bursar.channel import Permit, ReceiveEnd, SendEnd, channel
from bursar.clock import now, sleep, sleep_until
from bursar.connect import open_tcp, open_unix
from bursar.economy import capabilities, charge, entropy, host_entropy, recharge, revoke
from bursar.errors import (
    BadDependency,
    BudgetExceeded,
    BursarError,
    Cancelled,
    CapabilityDenied,
    CapabilityForged,
    CapabilityRevoked,
    ChannelClosed,
    Deadlock,
    DelimiterNotFound,
    Divergence,
    ForeignAwait,
    HostLost,
    HostMisuse,
    InfeasibleDemand,
    MemoryBudgetExceeded,
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
    WouldBlock,
)
from bursar.evidence.metrics import Statistics
from bursar.execution.checkpoint import Checkpoint
from bursar.files import wait_readable, wait_writable
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
from bursar.nursery import Nursery, nursery
from bursar.portal import Portal, portal
from bursar.runtime import Cleanup, Runtime, run
from bursar.scope import shield, timeout
from bursar.select import Selected, select
from bursar.serve import Listener, listen_tcp, listen_unix, serve
from bursar.signals import wait_signal
from bursar.snapshot import Explanation, Snapshot
from bursar.streams import Stream
from bursar.supervisor import Child, Supervisor, supervisor
from bursar.sync import Event, Lock, Semaphore
from bursar.task import Task, checkpoint, current_task

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
    "Listener",
    "Lock",
    "Mailbox",
    "MemoryBudgetExceeded",
    "NotBuilt",
    "Nursery",
    "NurseryClosed",
    "NurseryState",
    "Outcome",
    "OutcomeKind",
    "PauseTimeout",
    "Permit",
    "Portal",
    "Priority",
    "ProfileError",
    "PromiseRejected",
    "ReceiveEnd",
    "Report",
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
