"""The extension module `bursar._native` (native/python/module/module.c), for type checkers.

The module is absent where Bursar was installed without a C compiler: import it under `except ImportError`.

A type that exists in Python too has the interface of its twin, so the twin stands here in its place. `bursar.seam` is
the table of twins. `tests/native/kernel/test_stub.py` compares this file with the built module.
"""

# pyright: reportPrivateUsage=false

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypedDict, TypeVar, final

from bursar import request as _request
from bursar.drive.coroutine import Driver as Driver
from bursar.law import cancel as _cancel
from bursar.law import kernel as _kernel
from bursar.law import nursery as _nursery
from bursar.law import task as _task
from bursar.law.admission.gate import GateCore as GateCore
from bursar.law.admission.gate import GateTotalsCore as GateTotalsCore
from bursar.law.admission.queues import QueuesCore as QueuesCore
from bursar.law.admission.queues import WaitClass as WaitClass
from bursar.law.admission.ticket import Ticket as Ticket
from bursar.law.budget import Budget
from bursar.law.cancel import CancelScope as CancelScope
from bursar.law.lanes import Worker as Worker
from bursar.law.pool import Pool as Pool
from bursar.law.task import Task as Task
from bursar.law.timers import Timer as Timer
from bursar.law.timers import Timers as Timers
from bursar.law.wake import Wait as Wait
from bursar.law.wake import WaitList as WaitList
from bursar.ops import nursery as _nursery_ops
from bursar.ops import task as _task_ops
from bursar.ops.channel import ChannelCore as ChannelCore
from bursar.ops.channel import EndCore as EndCore
from bursar.ops.channel import Receive as Receive
from bursar.ops.channel import ReceiveCore as ReceiveCore
from bursar.ops.channel import Send as Send
from bursar.ops.channel import SendCore as SendCore
from bursar.ops.clock import _Sleep as _Sleep
from bursar.ops.clock import sleep as sleep
from bursar.ops.nursery import _Join as _Join
from bursar.ops.nursery import nursery as nursery
from bursar.ops.sync import Event as Event
from bursar.ops.task import _Ended as _Ended
from bursar.ops.task import checkpoint as checkpoint
from bursar.request import Entry as Entry
from bursar.request import Operation as Operation
from bursar.threads.job import OnThread as OnThread
from bursar.threads.job import ThreadJob as ThreadJob
from bursar.threads.portal import PortalCalls as PortalCalls

T_co = TypeVar("T_co", covariant=True)

class BuildInfo(TypedDict):
    compiler: str
    compiler_version: str
    c_standard: str
    python: str
    fast_paths: bool
    private_layouts: bool

KERNEL: Final[bool]
"""Whether this build holds the native kernel."""

def build_info() -> BuildInfo: ...
def adopt(law: dict[str, Any], /) -> None:
    """Hand over every class and function of the law that C uses, by their names."""

def expose(things: dict[str, Any], /) -> None:
    """Hand over objects that C uses, by their names."""

def unexposed() -> list[str]:
    """The names that C uses and that no module has exposed yet."""

def memory_hooks() -> tuple[bool, int]:
    """Whether the hooks of the meter are in place, and how many blocks have an owner."""

# ---- twins under another name

NurseryHandle = _nursery_ops.Nursery
TaskHandle = _task_ops.Task

# ---- twins that have more than their class in Python

class Kernel(_kernel.Kernel):
    """The part of the kernel that is C. `bursar.backend` derives the native kernel from it and from the law's."""

    ended: tuple[int, ...]
    """How many tasks have ended in each outcome."""

    def __init__(
        self,
        seed: int,
        workers: int,
        steal_policy: int,
        yield_interval: int,
        cleanup_ops: int,
        cleanup_ns: int,
        inherit: bool,
        default_spawns: int | None,
        budget: Budget,
        registry: Any,
        revoked: set[int],
        counters: Counter[str],
        /,
    ) -> None: ...
    def start(self, task: _task.Task, work: Any, args: tuple[Any, ...], /) -> None: ...
    def flush_uses(self) -> None: ...
    # The functions of law/cancel.py, as methods.
    def begin_cleanup(self, task: _task.Task, /) -> None: ...
    def pause_cleanup(self, task: _task.Task, /) -> None: ...
    def resume_cleanup(self, task: _task.Task, /) -> None: ...
    def end_cleanup(self, task: _task.Task, /) -> None: ...
    def leave_all(self, task: _task.Task, /) -> None: ...
    def look_scope(self, task: _task.Task, /) -> None: ...
    def move_scope(self, scope: _cancel.Scope, phase: _cancel.CancelPhase, /) -> None: ...
    def require_innermost(self, block: CancelScope, /) -> None: ...

class Nursery(_nursery.Nursery):
    kernel: Kernel

class NurseryBlock(_nursery_ops.NurseryBlock):
    def __next__(self) -> Any: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, error: Any, /, *more: Any) -> Any: ...
    def close(self) -> None: ...
    def why(self) -> str: ...
    def blockers(self) -> list[_task.Task]: ...

class Request(_request.Request[T_co]):
    """In C a request is its own iterator."""

    def send(self, value: Any, /) -> Any: ...

# ---- types that exist only in C

@final
class Arguments:
    """The arguments of a task that has not begun."""

class Checkpoint(Request[None]):
    """Pay one op and let the others run."""

@final
class Children:
    """The live children of a nursery, by id, in the order of spawning."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: int, /) -> _task.Task: ...
    def __repr__(self) -> str: ...
    def keys(self) -> list[int]: ...
    def values(self) -> list[_task.Task]: ...

class EventWait(Operation[None]):
    """The request that `Event.wait` returns."""

    def why(self) -> str: ...

@final
class MemoryAccountSet:
    """The memory of one run. `make_error(tag)` makes the error for a task that is over its limit; None: not now."""

    def __new__(cls, make_error: Callable[[int], BaseException | None]) -> MemoryAccountSet: ...
    def changed(self) -> list[int]:
        """The tags of the accounts whose blocks were freed by others since the last call."""
    def close(self) -> None: ...

@final
class MemoryAccount:
    """The memory that one task holds."""

    def __new__(cls, accounts: MemoryAccountSet, tag: int) -> MemoryAccount: ...
    def enter(self, left: int | None, /) -> None: ...
    def leave(self) -> int: ...
    def paid(self, bytes: int, /) -> None: ...
    def end(self) -> int: ...
    def notify_once(self) -> bool: ...
    @property
    def due(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def refused(self) -> int: ...

class Next(Receive[Any]):
    """One step of `async for` over a channel."""

    def throw(self, error: Any, /, *more: Any) -> Any: ...

class TraceWriter:
    """Writes the events of a native kernel into the buffer of a trace file."""

    def __new__(cls, layouts: dict[str, tuple[int, str]], page: bytearray, page_max: int) -> TraceWriter: ...
    @property
    def count(self) -> int: ...

@final
class Resume:
    """The box in which the driver sends a result into a coroutine."""

@final
class TraceRing(TraceWriter):
    """Keeps the newest records of a native kernel."""

    def __new__(
        cls, layouts: dict[str, tuple[int, str]], events_max: int, blob_bytes_max: int, chain: int
    ) -> TraceRing: ...
    @property
    def dropped(self) -> int: ...
    def put(self, record: bytes, blob_bytes: int, /) -> None: ...
    def records(self) -> list[tuple[bytes, bool]]: ...
    def before(self) -> tuple[Any, ...]: ...

@final
class SpawnTerms:
    """What tasks that were spawned alike have in common."""

@final
class QueueView:
    """A queue of tasks, oldest first, for reading."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_task.Task]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __lt__(self, value: object, /) -> bool: ...
    def __le__(self, value: object, /) -> bool: ...
    def __gt__(self, value: object, /) -> bool: ...
    def __ge__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
