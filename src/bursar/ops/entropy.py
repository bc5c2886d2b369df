"""Random numbers for a task: `entropy` from the seed of the run, `host_entropy` from the host."""

from __future__ import annotations

from typing import ClassVar, Final

from bursar.backend import Kernel
from bursar.backend import Task as LawTask
from bursar.law.capability import CapEntropy, require
from bursar.law.costs import SYSCALL, Cost
from bursar.request import Request, loop_module

loop_module(__name__)

HOST_ENTROPY_MAX: Final = 1 << 16  # bytes per request: a key needs 32, and the trace holds every byte


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
