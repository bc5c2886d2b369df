"""What a task can do with its capabilities: `capabilities` shows them, `revoke` takes a derived one back."""

from __future__ import annotations

from bursar.backend import Kernel
from bursar.backend import Task as LawTask
from bursar.law.capability import Capabilities, Capability
from bursar.request import Request, loop_module

loop_module(__name__)


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
