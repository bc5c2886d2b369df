"""Money and authority, as a task may use them: `charge`, `recharge`, `capabilities`, `revoke`, and chance: `entropy`
from the seed, `host_entropy` from the host."""

from __future__ import annotations

from typing import ClassVar, Final

from bursar.backend import Kernel
from bursar.backend import Task as LawTask
from bursar.law.budget import COMPONENTS, SYSCALL, UNITS_MAX, Budget, Cost
from bursar.law.capability import Capabilities, Capability, CapEntropy, require
from bursar.ops.task import Task
from bursar.request import Request, loop_module

loop_module(__name__)

HOST_ENTROPY_MAX: Final = 1 << 16  # bytes at once: a key needs 32, and every one of them goes on record


class _Charge(Request[None]):
    __slots__ = ("_cost",)

    def __init__(self, cost: Cost) -> None:
        self._cost = cost

    def bill(self) -> Cost:
        return self._cost

    def perform(self, kernel: Kernel, task: LawTask) -> None:
        """The bill was all."""


def charge(ops: int = 0, *, memory: int = 0, spawns: int = 0, channel_ops: int = 0, syscalls: int = 0) -> Request[None]:
    """Awaited: pay for work that Bursar cannot see: `await charge(ops=n)` after n rounds of a loop.

    A charge is paid in full or not at all, and costs at least one op, like any request. If there is too little memory
    or too few spawns, it raises `MemoryBudgetExceeded` or `SpawnBudgetExceeded` and the task continues; too little of
    the others exhausts the task. When the turn is over, the other tasks run first.
    """
    amounts = (ops, memory, spawns, channel_ops, syscalls)
    for name, amount in zip(COMPONENTS, amounts, strict=True):
        if type(amount) is not int or not 0 <= amount <= UNITS_MAX:
            raise ValueError(f"charge({name}={amount!r}): a charge is a whole number between 0 and {UNITS_MAX}")
    billed = (max(ops, 1), *amounts[1:])  # asking is never free
    return _Charge(tuple((component, amount) for component, amount in enumerate(billed) if amount))


class _Recharge(Request[None]):
    __slots__ = ("_amount", "_task")

    def __init__(self, amount: Budget, task: Task[object] | None) -> None:
        self._amount = amount
        self._task = task

    def perform(self, kernel: Kernel, task: LawTask) -> None:
        target = task if self._task is None else self._task.inside(kernel)
        kernel.recharge_by_capability(task, target, self._amount)


def recharge(amount: Budget, task: Task[object] | None = None) -> Request[None]:
    """Awaited: put `amount` into this task's own budget, or into that of `task`. Needs a `CapBudget`, within its
    limits.

    Raises `CapabilityDenied` if the capability has too little left, and `ValueError` if the task has ended. A task on
    hold becomes runnable.
    """
    return _Recharge(amount, task)


class _Held(Request[Capabilities]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: LawTask) -> Capabilities:
        return dict(task.capabilities)


def capabilities() -> Request[Capabilities]:
    """Awaited: what this task holds, as a mapping from kind to capability: `(await capabilities())[CapSpawn]`."""
    return _Held()


class _Revoke(Request[None]):
    __slots__ = ("_capability",)

    def __init__(self, capability: Capability) -> None:
        self._capability = capability

    def perform(self, kernel: Kernel, task: LawTask) -> None:
        kernel.registry.revoke(self._capability, by=task)


def revoke(capability: Capability) -> Request[None]:
    """Awaited: revoke a capability that this task derived, and every capability that was derived from it.

    What it allowed before stays. Raises `CapabilityDenied` if another task derived it.
    """
    return _Revoke(capability)


class _Entropy(Request[int]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: LawTask) -> int:
        require(task, task.capabilities, CapEntropy, "draw random numbers")
        return kernel.entropy.next()


def entropy() -> Request[int]:
    """Awaited: a random number of 64 bits from the seeded stream of the run. Needs `CapEntropy`.

    It is reproducible, so do not use it for secrets.
    """
    return _Entropy()


class _HostEntropy(Request[bytes]):
    __slots__ = ("_size",)
    cost: ClassVar[Cost] = SYSCALL

    def __init__(self, size: int) -> None:
        self._size = size

    def perform(self, kernel: Kernel, task: LawTask) -> bytes:
        require(task, task.capabilities, CapEntropy, "draw entropy of the host")
        pump, size = kernel.runtime.pump, self._size
        return pump.ask(task, "entropy", lambda: pump.host.entropy(size))


def host_entropy(size: int) -> Request[bytes]:
    """Awaited: `size` unpredictable bytes from the host, at most 65,536. Needs `CapEntropy` and costs a system call.

    The trace of a run holds every answer of the host: a trace of a run that drew secrets contains them.
    """
    if type(size) is not int or not 0 <= size <= HOST_ENTROPY_MAX:
        raise ValueError(f"host_entropy({size!r}): must be a whole number of bytes, at most {HOST_ENTROPY_MAX}")
    return _HostEntropy(size)
