"""Every error that Bursar raises, in one place.

An error says what happened, to which task, and what to do about it. Nothing here depends on the rest of
the package, so that the law, the hosts and the command line can all raise the same types.

`Cancelled` is a `BaseException`: it must pass through `except Exception` on its way out of a task. `NativePanic` is a
`BaseException` too, because no handler could do anything about it.
`BudgetExceeded` is an ordinary exception on purpose: a task may catch it, tidy up and return what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bursar.law.cancel import CancelReason


class BursarError(Exception):
    """The base class of all errors of Bursar, except `Cancelled` and `NativePanic`."""


class Cancelled(BaseException):
    """Thrown once into a task, at an await, when it is asked to stop. Clean up and let it pass."""

    # Every cancelled task makes one, so it must be cheap: it computes its text only when asked, and it takes no weak
    # references, like Python's own errors.
    __slots__ = ()

    @property
    def reason(self) -> CancelReason:
        """Why the task was asked to stop: a `CancelReason`."""
        return self.args[0] if self.args else None  # pyright: ignore[reportReturnType] (a subclass may drop it)

    def __str__(self) -> str:
        return str(self.reason)


class BudgetExceeded(BursarError):
    """A task could not pay, or the source of a recharge did not have enough. `.task` and `.component` name the task
    and what ran out; `.code` is −3."""

    code = -3  # the frozen result code of the C interface for `budget_exceeded`

    def __init__(self, message: str, *, task: str = "", component: str = "") -> None:
        super().__init__(message)
        self.task = task
        self.component = component


class MemoryBudgetExceeded(BudgetExceeded, MemoryError):
    """The memory counter cannot pay. The task may recharge, release something, or fail."""


class SpawnBudgetExceeded(BudgetExceeded):
    """The purse cannot pay for another task, or for a charge of spawns. Nothing was spawned; the task continues."""


class CapabilityDenied(BursarError):
    """The task does not hold the capability that the operation needs; or the capability is used up, may not be passed
    on, or would become wider."""


class CapabilityForged(CapabilityDenied):
    """This runtime never minted the object. Constructing a capability only describes one."""


class CapabilityRevoked(CapabilityDenied):
    """The capability, or one that it was derived from, was revoked."""


class NurseryClosed(BursarError):
    """The nursery takes no more tasks: it is closing, cancelling or has ended."""


class ScopeMisuse(BursarError):
    """Blocks were left in another order than they were entered, or an object was used outside its task or runtime."""


class ResultNotReady(BursarError):
    """The result of a task was read before its end."""


class ForeignAwait(BursarError, TypeError):
    """A task awaited something that Bursar does not drive, such as another library's future."""


class TaskCancelled(BursarError):
    """The awaited task was cancelled."""


class TaskDropped(BursarError):
    """The awaited task was dropped before it was admitted."""


class BadDependency(BursarError, ValueError):
    """A dependency is impossible: no task, a task of another runtime, named twice, or waiting for the new task."""


class InfeasibleDemand(BursarError, ValueError):
    """A task needs more than there is of a hard resource, or a resource that its gate does not have."""


class PauseTimeout(BursarError, TimeoutError):
    """A task that was asked to pause did not reach a checkpoint in time, and was cancelled."""


class TaskPanicked(BursarError):
    """The awaited task raised something that is not an `Exception`; the cause is attached."""


class ThreadLost(BursarError):
    """A task's function lost its thread from a cause outside the function, or got none. The task may be run again."""


class ChannelClosed(BursarError):
    """The channel is closed, and for a receiver also empty."""


class StreamClosed(BursarError):
    """This program closed the stream or listener, perhaps while a task waited on it; or a send was cut off in the
    middle."""


class StreamEnded(BursarError, EOFError):
    """The peer ended the stream before the requested data was complete."""


class DelimiterNotFound(BursarError):
    """The peer sent the allowed number of bytes without a delimiter. No byte was taken."""


class WouldBlock(BursarError):
    """A `_nowait` operation would have had to wait."""


class Deadlock(BursarError):
    """Every task waits, no timer is armed and nothing outside can wake a task. `graph` says which task waits for
    what."""

    def __init__(self, message: str, graph: str) -> None:
        super().__init__(f"{message}\n{graph}")
        self.graph = graph


class HostMisuse(BursarError):
    """A host was used in a way that it does not support: a call from the wrong thread, a guest host run like a loop,
    or a wait that the host cannot do."""


class HostLost(BursarError):
    """The host stopped calling back while tasks were alive. The tasks were closed."""


class PromiseRejected(BursarError):
    """A task waited for a JavaScript promise, and the promise was rejected. `reason` is JavaScript's value."""

    def __init__(self, message: str, reason: Any) -> None:
        super().__init__(message)
        self.reason = reason


class NativeUnavailable(BursarError):
    """There are no native workers: the C library was not built or cannot be loaded, or the process was forked."""


class NativeFailed(BursarError):
    """A C function returned a negative number, `.code`. `.task` is the name of its task."""

    def __init__(self, message: str, *, task: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.task = task
        self.code = code


class NativePanic(BaseException):
    """A C function overflowed its stack or called `janus_panic(code)`. `.task` is the name of its task, `.code` the
    code."""

    def __init__(self, message: str, *, task: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.task = task
        self.code = code


class TraceError(BursarError):
    """A trace file cannot be read, is inconsistent, or does not fit its use. `record` is the number of the first
    bad record."""

    def __init__(self, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.record = record


class TraceCut(TraceError):
    """A trace file ends in the middle: the run still goes on, or was killed, or the file was cut. The records in it
    are valid."""


class Divergence(BursarError):
    """A replay did not do what its trace says. `recorded` is the trace's event, `happened` the replay's.

    `number` is the number of the event in the trace, `before` holds the last equal events, `hint` is a guess at the
    cause.
    """

    def __init__(
        self, message: str, recorded: str, happened: str, *, number: int, before: tuple[str, ...], hint: str
    ) -> None:
        same = "".join(f"\n  the same: {event}" for event in before)
        super().__init__(f"{message}{same}\n  recorded: {recorded}\n  happened: {happened}\n  perhaps:  {hint}")
        self.recorded = recorded
        self.happened = happened
        self.number = number
        self.before = before
        self.hint = hint


class ProfileError(BursarError):
    """The profile of the runtime does not allow this."""


class NotBuilt(BursarError, NotImplementedError):
    """The feature is designed but not built yet."""


class WorkflowError(BursarError):
    """A workflow cannot be run as it is written. The message names the task and what to change."""


class JournalError(BursarError):
    """A journal cannot be used: it is not a journal, another process runs it, it belongs to another workflow, or it
    cannot be written."""


class CommandFailed(BursarError):
    """A command of a workflow failed. `code` is its exit code, negative for a signal; `tail` holds its last lines."""

    def __init__(self, message: str, code: int, tail: str) -> None:
        super().__init__(message)
        self.code = code
        self.tail = tail


class RestartLimitExceeded(BursarError):
    """A supervisor restarted its children too often within its window and gave up."""


class RuntimeUsed(BursarError):
    """A Runtime runs one program, once. Make a new Runtime for the next run."""


class IllegalTransition(BursarError, AssertionError):
    """A state change that the transition table does not allow. This is a bug in Bursar, never in a program."""
