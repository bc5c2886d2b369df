"""Every error that Bursar raises, in one place.

An error says what happened, to which task, and what to do about it. Nothing here depends on the rest of
the package, so that the law, the hosts and the command line can all raise the same types.

`Cancelled` is a `BaseException`: it must pass through `except Exception` on its way out of a task. So is `NativePanic`,
which no handler could do anything about.
`BudgetExceeded` is an ordinary exception on purpose: a task may catch it, tidy up and return what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bursar.law.cancel import CancelReason


class BursarError(Exception):
    """The root of everything that Bursar raises, `Cancelled` apart."""


class Cancelled(BaseException):
    """Thrown once into a task, at an await point, when it is asked to stop. Clean up and let it pass."""

    # Made once for every task that is cancelled: nothing is computed before somebody asks, and like the errors of
    # Python itself it takes no weak references.
    __slots__ = ()

    @property
    def reason(self) -> CancelReason:
        """Why the task was asked to stop."""
        return self.args[0] if self.args else None  # pyright: ignore[reportReturnType] (a subclass may drop it)

    def __str__(self) -> str:
        return str(self.reason)


class BudgetExceeded(BursarError):
    """A task needed more than it was granted and nobody could give it more."""

    code = -3  # the frozen result code of the C interface for `budget_exceeded`

    def __init__(self, message: str, *, task: str = "", component: str = "") -> None:
        super().__init__(message)
        self.task = task
        self.component = component


class MemoryBudgetExceeded(BudgetExceeded, MemoryError):
    """The memory component cannot pay. The task may recharge, give something up, or fail."""


class SpawnBudgetExceeded(BudgetExceeded):
    """The purse of the nursery cannot pay for another task. Nothing was spawned."""


class CapabilityDenied(BursarError):
    """The task does not hold what the operation needs. Bursar fails closed; there is no fallback."""


class CapabilityForged(CapabilityDenied):
    """The object was never minted by this runtime: constructing a capability only describes one."""


class CapabilityRevoked(CapabilityDenied):
    """The capability, or one that it was derived from, has been taken back."""


class NurseryClosed(BursarError):
    """The nursery takes no more children: it is closing, cancelling or over."""


class ScopeMisuse(BursarError):
    """Blocks were left in another order than they were entered, or an object was used outside its task."""


class ResultNotReady(BursarError):
    """The result of a task was read before its end."""


class ForeignAwait(BursarError, TypeError):
    """A task awaited something that Bursar cannot drive, such as another library's future."""


class TaskCancelled(BursarError):
    """Raised to whoever awaits a task that was cancelled."""


class TaskDropped(BursarError):
    """Raised to whoever awaits a task that was dropped before it was admitted."""


class BadDependency(BursarError, ValueError):
    """A task was to follow something that it cannot follow."""


class InfeasibleDemand(BursarError, ValueError):
    """A task needs more than there is, and so could never start."""


class PauseTimeout(BursarError, TimeoutError):
    """A task did not come to a checkpoint in time when it was asked to pause, and was cancelled."""


class TaskPanicked(BursarError):
    """Raised to whoever awaits a task that died of something worse than an `Exception`."""


class ThreadLost(BursarError):
    """The thread that ran a task's function died around it: something struck the thread itself."""


class ChannelClosed(BursarError):
    """The channel is closed, and for a receiver also empty."""


class StreamClosed(BursarError):
    """The stream or listener was closed here, or what it carries can no longer be made sense of."""


class StreamEnded(BursarError, EOFError):
    """The peer ended the stream in the middle of what was asked for."""


class DelimiterNotFound(BursarError):
    """The peer sent as much as was allowed, and no delimiter."""


class WouldBlock(BursarError):
    """A `_nowait` operation could not be done at once."""


class Deadlock(BursarError):
    """Every task waits, no timer is armed and nothing outside can wake one. `graph` says who waits for what."""

    def __init__(self, message: str, graph: str) -> None:
        super().__init__(f"{message}\n{graph}")
        self.graph = graph


class HostMisuse(BursarError):
    """A host and the pump do not fit: a call from the wrong thread, a guest run like a loop, a wait it cannot do."""


class HostLost(BursarError):
    """The host stopped calling back while tasks were still alive. They were closed."""


class PromiseRejected(BursarError):
    """A promise of the page, which a task waited for, was rejected. `reason` is what JavaScript gave."""

    def __init__(self, message: str, reason: Any) -> None:
        super().__init__(message)
        self.reason = reason


class NativeUnavailable(BursarError):
    """There are no native workers here: the C library was not built, cannot be loaded, or is left behind by a fork."""


class NativeFailed(BursarError):
    """A native function returned a negative number, `code`: that is how it fails."""

    def __init__(self, message: str, *, task: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.task = task
        self.code = code


class NativePanic(BaseException):
    """A native function ran out of stack, or gave up by `janus_panic(code)`. Its frames are gone, without cleanup."""

    def __init__(self, message: str, *, task: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.task = task
        self.code = code


class TraceError(BursarError):
    """A trace file cannot be read as one, or does not hold together. `record` is the number of the first bad record."""

    def __init__(self, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.record = record


class TraceCut(TraceError):
    """A trace file ends in the middle: the run goes on, or was killed, or the file was cut. What it holds is good."""


class Divergence(BursarError):
    """A replay did something else than its trace says. `recorded` and `happened` are the two sides.

    `number` is that of the event in the trace, `before` are the last ones that were the same, `hint` is a guess.
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
    """The design has a room for this, and the room is not built yet."""


class WorkflowError(BursarError):
    """A workflow cannot be run as it is written. The message names the task and what to change."""


class JournalError(BursarError):
    """A journal cannot be used: it is no journal, another process runs it, or it does not fit what is to be run."""


class CommandFailed(BursarError):
    """A command of a workflow ended badly. `code` is its exit code, negative for a signal; `tail` its last lines."""

    def __init__(self, message: str, code: int, tail: str) -> None:
        super().__init__(message)
        self.code = code
        self.tail = tail


class RestartLimitExceeded(BursarError):
    """A supervisor restarted its children too often within its window and gave up."""


class RuntimeUsed(BursarError):
    """A Runtime runs one program, once. Make another one."""


class IllegalTransition(BursarError, AssertionError):
    """A state change that the transition table does not hold. This is a bug in Bursar, never in a program."""
