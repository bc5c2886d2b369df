"""Capabilities: the rights of a task.

A capability that a program constructs is only a *description*. It becomes a capability when a `Registry` mints it, and
only a Runtime has a registry. A minted capability can be attenuated: a derived capability is never wider than its
parent, and a use counts against all its ancestors. Passing a capability by name is *delegation*, and must be allowed
(`delegable`). What a nursery passes on by itself is *inheritance*, and needs no permission. Revoking a capability
revokes all that were derived from it, from their next use on. A child that runs, or a channel that is open, stays.

CAPABILITY-1  a derived limit is ≤ its parent's, component by component
CAPABILITY-2  in use ≤ limit, for every capability and each of its ancestors
CAPABILITY-3  nothing that was not minted here passes `require`

Rejected: permission strings in a dictionary. A misspelt permission would be denied silently, and a type checker could
not find it. Also rejected: marking all descendants at the revocation. It needs lists of children, which keep every
derived capability alive. Walking up the ancestors at each use is exact, and cheap because they are few (DEPTH_MAX).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from bursar.errors import CapabilityDenied, CapabilityForged, CapabilityRevoked
from bursar.law.budget import Budget

if TYPE_CHECKING:
    from bursar.law.task import Task

DEPTH_MAX: Final = 64  # derivations in a row: bounds the walk to the root at every use


@dataclass(frozen=True, slots=True, eq=False)
class Seal:
    """Makes a description real: says where it was minted, its parent, and the task that derived it."""

    registry: Registry
    serial: int
    parent: Capability | None
    depth: int
    deriver: int  # task id; 0 = the runtime itself


@dataclass(frozen=True, slots=True, eq=False)
class Capability:
    """What all kinds of capabilities have in common. By itself it allows nothing.

    A constructed capability is only a description. It becomes real when a runtime mints it, through
    `run(capabilities=[...])` or `Runtime.grant`.

    Attributes:
        delegable: Whether its holder may pass it on by name. Minted ones may be passed on; derived ones only if
            `attenuate(delegable=True)` made them. It does not affect what child tasks inherit.
    """

    delegable: bool = field(default=False, kw_only=True)
    _seal: Seal | None = field(default=None, init=False, repr=False)

    @property
    def minted(self) -> bool:
        """Whether a runtime minted it."""
        return self._seal is not None and self._seal.registry.minted(self)

    def attenuate(self, *, delegable: bool = False, **narrower: Any) -> Self:
        """A narrower capability of the same kind, derived by the running task.

        Raises `CapabilityDenied` if it would be wider or is the 65th derivation in a row, `CapabilityForged` for a
        mere description, `CapabilityRevoked`, and `TypeError` for a limit that the kind does not have.
        """
        if self._seal is None:
            raise CapabilityForged(f"{self!r} was never minted: only a capability from a Runtime can be attenuated")
        return self._seal.registry.derive(self, delegable and self.delegable, narrower)

    def covers(self, other: Self) -> bool:
        """Whether `other` asks for no more than this capability (CAPABILITY-1)."""
        limits = [f.name for f in fields(self) if f.init and f.name != "delegable"]
        return all(_covers(getattr(self, name), getattr(other, name)) for name in limits)

    def ancestors(self) -> Iterator[Capability]:
        """This capability, then the one that it was derived from, up to the one that the runtime minted."""
        capability: Capability | None = self
        while capability is not None:
            yield capability
            capability = capability._seal.parent if capability._seal is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class CapSpawn(Capability):
    """May open nurseries and spawn tasks.

    Attributes:
        max_tasks: How many tasks may live at once; None means no limit.
        task_budget: The largest budget of a task; None means no limit.
    """

    max_tasks: int | None = None
    task_budget: Budget | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CapBudget(Capability):
    """May recharge its holder, or another task, up to `limits` in total. Never inherited; pass it by name.

    Attributes:
        limits: The total of all recharges.
    """

    limits: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True, eq=False)
class CapChannel(Capability):
    """May make channels. Mailboxes of actors and the answers to `Actor.ask` are channels too.

    Attributes:
        max_channels: How many may be open at once; None means no limit.
        max_buffer: The largest buffer; None means no limit.
    """

    max_channels: int | None = None
    max_buffer: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CapExecutor(Capability):
    """May choose where tasks run.

    Attributes:
        backends: `"cooperative"`, `"thread"` for plain functions, `"native"` for C functions. The profiles `service`
            and `cluster` grant all three.
    """

    backends: frozenset[str] = frozenset({"cooperative"})


@dataclass(frozen=True, slots=True, eq=False)
class CapClock(Capability):
    """May read the clock."""


@dataclass(frozen=True, slots=True, eq=False)
class CapTimer(Capability):
    """May sleep and set timeouts."""


@dataclass(frozen=True, slots=True, eq=False)
class CapEntropy(Capability):
    """May draw random numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class CapIO(Capability):
    """May use the host's files, sockets and signals."""


Capabilities = Mapping[type[Capability], Capability]
C = TypeVar("C", bound=Capability)


def _covers(outer: Any, inner: Any) -> bool:
    match outer:
        case None:
            return True
        case Budget():
            return type(inner) is Budget and inner.within(outer)
        case frozenset():
            return type(inner) is frozenset and inner <= cast("frozenset[object]", outer)
        case _:
            return type(inner) is int and inner <= outer


class Registry:
    """The mint: knows which capabilities are real, which are revoked, and how much of each is in use."""

    __slots__ = ("_in_use", "_revoked", "_serial", "_spent", "current")

    def __init__(self) -> None:
        self._serial = 0
        self._revoked: set[int] = set()
        self._in_use: dict[int, int] = {}  # serial → live tasks or open channels
        self._spent: dict[int, dict[str, int]] = {}  # serial of a CapBudget → what was recharged under it
        self.current: Task | None = None  # the task that derives: the kernel sets this to the RUNNING task

    @property
    def revoked_serials(self) -> set[int]:
        """The serial numbers of the revoked capabilities."""
        return self._revoked

    # ---- making and taking back

    def mint(self, description: C) -> C:
        """Make a description real. Only the Runtime calls this."""
        if description._seal is not None:
            raise CapabilityForged(f"{description!r} is minted already; attenuate it instead")
        return self._sealed(replace(description, delegable=True), parent=None, depth=0, deriver=0)

    def derive(self, parent: C, delegable: bool, narrower: Mapping[str, Any]) -> C:
        """An attenuated capability, derived by the task that runs (CAPABILITY-1)."""
        self.authenticate(parent)
        known = {f.name for f in fields(parent) if f.init}
        if unknown := set(narrower) - known:
            raise TypeError(f"{type(parent).__name__} has no {', '.join(sorted(unknown))}")
        depth = parent._seal.depth + 1 if parent._seal is not None else 0
        if depth > DEPTH_MAX:
            raise CapabilityDenied(f"{parent!r} is {DEPTH_MAX} derivations deep; derive from an earlier one")
        child = replace(parent, delegable=delegable, **narrower)
        if not parent.covers(child):
            raise CapabilityDenied(f"{child!r} is wider than {parent!r}: a capability can only be attenuated")
        return self._sealed(child, parent, depth, self.current.id if self.current is not None else 0)

    def _sealed(self, capability: C, parent: Capability | None, depth: int, deriver: int) -> C:
        self._serial += 1
        object.__setattr__(capability, "_seal", Seal(self, self._serial, parent, depth, deriver))
        return capability

    def revoke(self, capability: Capability, by: Task | None = None) -> None:
        """Revoke a capability, and all that were derived from it. A task may revoke only what it derived."""
        seal = self._seal_of(capability)
        if by is not None and seal.deriver != by.id:
            raise CapabilityDenied(f"task {by.name!r} did not derive {capability!r} and so cannot revoke it")
        self._revoked.add(seal.serial)

    # ---- checking

    def _seal_of(self, capability: Capability) -> Seal:
        """CAPABILITY-3: the seal of a capability that was minted here."""
        seal = capability._seal
        if seal is None or seal.registry is not self:
            raise CapabilityForged(f"{capability!r} was not minted by this runtime; ask Runtime.grant for one")
        return seal

    def minted(self, capability: Capability) -> bool:
        return capability._seal is not None and capability._seal.registry is self

    def revoked(self, capability: Capability) -> bool:
        return bool(self._revoked) and any(self._seal_of(c).serial in self._revoked for c in capability.ancestors())

    def authenticate(self, capability: Capability) -> None:
        """CAPABILITY-3: raise unless the capability is minted and not revoked."""
        self._seal_of(capability)
        if self.revoked(capability):
            raise CapabilityRevoked(f"{capability!r} has been revoked and cannot be passed on; grant another one")

    # ---- counting

    def in_use(self, capability: Capability) -> int:
        return self._in_use.get(self._seal_of(capability).serial, 0)

    def acquire(self, task: Task | None, capability: Capability, limit_name: str, operation: str) -> None:
        """Count one more live task or channel against the capability and its ancestors (CAPABILITY-2)."""
        for c in capability.ancestors():
            limit: int | None = getattr(c, limit_name)
            if limit is not None and self.in_use(c) >= limit:
                raise CapabilityDenied(
                    f"{_subject(task)} may not {operation}: {type(c).__name__}({limit_name}={limit}) is used up; "
                    "wait for one to end, or ask for a larger grant"
                )
        self.count(capability, 1)

    def release(self, capability: Capability) -> None:
        self.count(capability, -1)

    def count(self, capability: Capability, n: int) -> None:
        """Add `n` uses, which may be negative, to a capability and its ancestors."""
        for c in capability.ancestors():
            serial = self._seal_of(c).serial
            used = self._in_use.pop(serial, 0) + n
            assert used >= 0, "CAPABILITY-2"
            if used:
                self._in_use[serial] = used

    def draw(self, task: Task, capability: CapBudget, amount: Budget) -> None:
        """Count a recharge against a `CapBudget` and its ancestors, whole or not at all (CAPABILITY-2)."""
        amounts = dict(amount.limits())
        line = [c for c in capability.ancestors() if isinstance(c, CapBudget)]
        after: dict[int, dict[str, int]] = {}
        for c in line:
            serial = self._seal_of(c).serial
            used = self._spent.get(serial, {})
            after[serial] = used | {name: used.get(name, 0) + more for name, more in amounts.items()}
            for name, limit in c.limits.limits():
                total, more = after[serial].get(name, 0), amounts.get(name, 0)
                if total > limit:
                    raise CapabilityDenied(
                        f"{_subject(task)} may not recharge {name} by {more:,}: "
                        f"its CapBudget allows {limit:,} in total and {total - more:,} are used"
                    )
        self._spent.update(after)


def require(task: Task | None, held: Capabilities, kind: type[C], operation: str) -> C:
    """The capability of class `kind` in `held`. Raises `CapabilityDenied`, which names task, kind and operation."""
    capability = held.get(kind)
    if capability is None:
        raise CapabilityDenied(
            f"{_subject(task)} may not {operation}: it holds no {kind.__name__}; "
            f"grant one with run(capabilities=[{kind.__name__}(...)]) and pass it on with spawn(capabilities=[...])"
        )
    if capability._seal is None:
        raise CapabilityForged(f"{_subject(task)} may not {operation}: {capability!r} was never minted")  # CAPABILITY-3
    if capability._seal.registry.revoked(capability):
        raise CapabilityRevoked(f"{_subject(task)} may not {operation}: its {kind.__name__} has been revoked")
    return cast("C", capability)


def inheritable(held: Capabilities) -> Capabilities:
    """The capabilities that a nursery passes on by itself: all but `CapBudget`.

    A child with a `CapBudget` could recharge itself, and no budget would limit it. So a `CapBudget` is passed only by
    name.
    """
    if CapBudget not in held:
        return held
    return {kind: capability for kind, capability in held.items() if kind is not CapBudget}


def delegate(
    registry: Registry, spawner: Task | None, held: Capabilities, passed: Iterable[Capability]
) -> Capabilities:
    """The capabilities of a child when `passed` names them.

    Each must be minted here. The spawner must hold it, or an ancestor of it, in a delegable form.
    """
    granted: dict[type[Capability], Capability] = {}
    for capability in passed:
        if not isinstance(capability, Capability):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CapabilityForged(f"{capability!r} is not a capability")
        mine = held.get(type(capability))
        registry.authenticate(capability)
        if spawner is not None:
            if mine is None or all(c is not mine for c in capability.ancestors()):
                raise CapabilityDenied(
                    f"{_subject(spawner)} may not delegate {capability!r}: it holds neither this nor an ancestor of it"
                )
            if not mine.delegable:
                raise CapabilityDenied(
                    f"{_subject(spawner)} may not delegate {capability!r}: the task got it without delegable=True"
                )
        granted[type(capability)] = capability
    return granted


def _subject(task: Task | None) -> str:
    return f"task {task.name!r} ({task.id})" if task is not None else "code outside any task"
