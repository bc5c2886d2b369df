"""Every error that Bursar raises, in one place.

An error says what happened, to which task, and what to do about it. Nothing here depends on the rest of
the package, so that the law, the hosts and the command line can all raise the same types.

`Cancelled` is the one `BaseException`: it must pass through `except Exception` on its way out of a task.
`BudgetExceeded` is an ordinary exception on purpose: a task may catch it, tidy up and return what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bursar.law.cancel import CancelReason


TEXT_MAX: Final = 400  # of a program's own words that we repeat


def brief(thing: object, how: Callable[[Any], str] = str) -> str:
    """A program's object in our words: short, plain, and never an error of its own."""
    try:
        text = str.__str__(how(thing))
    except BaseException:
        text = f"<{type_name(thing)} that cannot be printed>"
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def type_name(thing: object) -> str:
    """The name of an object's class, whatever its metaclass says about it."""
    return type.__dict__["__name__"].__get__(type(thing))


class BursarError(Exception):
    """The root of everything that Bursar raises, `Cancelled` apart."""


class Cancelled(BaseException):
    """Thrown once into a task, at an await point, when it is asked to stop. Clean up and let it pass."""

    def __init__(self, reason: CancelReason) -> None:
        super().__init__(str(reason))
        self.reason = reason


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


class TaskPanicked(BursarError):
    """Raised to whoever awaits a task that died of something worse than an `Exception`."""


class ChannelClosed(BursarError):
    """The channel is closed, and for a receiver also empty."""


class WouldBlock(BursarError):
    """A `_nowait` operation could not be done at once."""


class Deadlock(BursarError):
    """Every task waits, no timer is armed and nothing outside can wake one. `graph` says who waits for what."""

    def __init__(self, message: str, graph: str) -> None:
        super().__init__(f"{message}\n{graph}")
        self.graph = graph


class ProfileError(BursarError):
    """The profile of the runtime does not allow this."""


class NotBuilt(BursarError, NotImplementedError):
    """The design has a room for this, and the room is not built yet."""


class RestartLimitExceeded(BursarError):
    """A supervisor restarted its children too often within its window and gave up."""


class RuntimeUsed(BursarError):
    """A Runtime runs one program, once. Make another one."""


class IllegalTransition(BursarError, AssertionError):
    """A state change that the transition table does not hold. This is a bug in Bursar, never in a program."""
