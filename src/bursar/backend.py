"""Chooses the kernel of this process, and exports the kernel's classes to the rest of the package.

The law is written twice: in Python (`bursar.law`) and in C (`bursar._native`). The C kernel is much faster, and it is
the default where it was built. `BURSAR_KERNEL=python|native` chooses a kernel; it is read once, at import. Both kernels
have the same names. Other modules import the names from here, and so do not depend on the choice.

The C kernel derives from the Python kernel. Everything that happens at every poll is C. Rare changes (holds, recharges,
obligations, the leftovers of a cut task) use the Python methods, which work on C records. `bursar.seam` has the table
of everything that exists in both languages.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter, deque
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Final

from bursar import errors
from bursar.errors import BursarError, IllegalTransition, ScopeMisuse
from bursar.law import (
    budget,
    cancel,
    capability,
    chain,
    costs,
    dispatch,
    lanes,
    ledger,
    nursery,
    pool,
    state,
    steal,
    task,
    timers,
    wake,
)
from bursar.law import kernel as law
from bursar.law.admission import gate, queues, ticket
from bursar.law.admission.resources import NOTHING
from bursar.seam import HAVE_NATIVE, KERNEL_VARIABLE, NATIVE, accelerated, derived_from_c, expose_law, methods_on
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.law.capability import Capability, CapSpawn


def kernel_in_use() -> str:
    """The name of the kernel that runs programs. Raises if `BURSAR_KERNEL` now names another one."""
    used = "native" if NATIVE else "python"
    asked = os.environ.get(KERNEL_VARIABLE) or used
    if asked not in ("python", "native"):
        raise BursarError(f"{KERNEL_VARIABLE}={asked}: no such kernel; the kernels are 'python' and 'native'")
    if asked == "native" and not HAVE_NATIVE:
        raise BursarError(
            f"{KERNEL_VARIABLE}=native: the native kernel was not built when Bursar was installed; "
            f"install it where a C compiler is available, or unset {KERNEL_VARIABLE}"
        )
    if asked != used:
        raise BursarError(
            f"{KERNEL_VARIABLE}={asked}: this process has the {used} kernel already; set it before the import"
        )
    return used


if TYPE_CHECKING or not NATIVE:
    from bursar.law.admission.gate import Gate as Gate
    from bursar.law.admission.gate import GateTotals as GateTotals
    from bursar.law.admission.queues import Queues as Queues
    from bursar.law.admission.ticket import Ticket as Ticket
    from bursar.law.cancel import CancelScope as CancelScope
    from bursar.law.kernel import Kernel as Kernel
    from bursar.law.nursery import Nursery as Nursery
    from bursar.law.task import Task as Task
    from bursar.law.wake import Wait as Wait
    from bursar.law.wake import WaitList as WaitList
else:
    CancelScope = accelerated(cancel.CancelScope)
    Nursery = accelerated(adds={"kernel"})(nursery.Nursery)
    Task = accelerated(omits={"queue"})(task.Task)
    Wait = accelerated(wake.Wait)
    WaitList = accelerated(wake.WaitList)
    # Only C makes these, for itself and for the methods of the law that read them.
    accelerated(pool.Pool)
    accelerated(timers.Timer)
    accelerated(timers.Timers)
    accelerated(omits={"stream"})(lanes.Worker)
    accelerated(omits={"members"})(queues.WaitClass)

    class Queues(queues.QueueOrder, accelerated(queues.QueuesCore)):
        """See `law.admission.queues.Queues`."""

    class GateTotals(gate.TotalCounts, accelerated(gate.GateTotalsCore)):
        """See `law.admission.gate.GateTotals`."""

    class Gate(gate.GateRules, accelerated(gate.GateCore)):
        """See `law.admission.gate.Gate`."""

        queues_class = Queues
        totals_class = GateTotals

    Ticket = methods_on(
        "Ticket",
        replaces={
            "dependency_count",
            "place",
            "precede",
            "ready_ns",
            "reasons",
            "starved_ns",
            "successors",
            "unmet",
            "waited_ns",
        },
    )(ticket.Ticket)


# ---- the parts of the C kernel that are written in Python


class _Registry(capability.Registry):
    """The registry of a native kernel. The kernel counts most uses of capabilities in C; the registry fetches the
    counts when it needs them."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        # Weak: a finished task that the collector does not track (RECORD-4 in law/records.h) still holds its
        # capabilities, and with them this registry. The registry must not lead back to the owner of the task.
        self._kernel: weakref.ref[Any] = weakref.ref(kernel)

    @property
    def current(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        kernel = self._kernel()
        return kernel.current if kernel is not None else None

    @current.setter
    def current(self, task: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignored: `current` reads the kernel's running task."""

    def _flush_uses(self) -> None:
        kernel = self._kernel()
        if kernel is not None:
            kernel.flush_uses()

    def in_use(self, capability: Capability) -> int:
        self._flush_uses()
        return super().in_use(capability)

    def acquire(self, task: Any, capability: Capability, limit_name: str, operation: str) -> None:
        self._flush_uses()
        super().acquire(task, capability, limit_name, operation)

    def release(self, capability: Capability) -> None:
        try:
            self._flush_uses()
        finally:  # release even if flushing ran out of memory
            super().release(capability)


class _Tasks(Mapping[int, Any]):
    """The live tasks of a native kernel by id, oldest first. Each use walks through the nurseries to find them."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __len__(self) -> int:
        return self._kernel.live

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __getitem__(self, id: int) -> Any:
        return self._all()[id]

    def values(self) -> ValuesView[Any]:
        return self._all().values()  # Mapping.values would look up each task again

    def items(self) -> ItemsView[int, Any]:
        return self._all().items()

    def _all(self) -> dict[int, Any]:
        found: list[Any] = []
        pending: list[Any] = [self._kernel.root]
        while pending:
            children: list[Any] = pending.pop().children.values()
            found.extend(children)
            for child in children:
                owned: dict[int, Any] = child.owned or {}
                pending.extend(owned.values())
        return {task.id: task for task in sorted(found, key=lambda task: task.id)}


# The methods of the law's kernel that C replaces. All other methods work on C records unchanged.
_KERNEL_IN_C: Final = frozenset(
    {
        "_record_spent",
        "_discard_answer",
        "_end_wait",
        "_fire",
        "_poll_over",
        "_ready",
        "_record_refund",
        "_unpause",
        "_unqueue",
    }
    | {"admit", "advance", "bill", "blocked", "cancel_nursery", "cancel_request", "close_nursery", "deliver_cancel"}
    | {"end_nursery", "finish", "interrupt", "leave_scope", "live", "new_id", "note", "observe", "open_nursery"}
    | {"spawn", "step", "step_over", "wake", "yielded"}
)


def _native_kernel() -> Any:
    """The class of native kernels."""
    base = derived_from_c("Kernel", law.Kernel, replaces=_KERNEL_IN_C)
    policies = list(steal.StealPolicy)

    class Kernel(base, law.Kernel):
        """The law at work, in C. See `bursar.law.kernel` for who calls what."""

        def __init__(
            self,
            *,
            seed: int = 0,
            workers: int = 1,
            budget: budget.Budget = budget.UNSTATED,
            steal_policy: steal.StealPolicy = steal.StealPolicy.RANDOM,
            yield_interval: int = law.YIELD_INTERVAL,
            cleanup_ops: int = law.CLEANUP_OPS,
            cleanup_ns: int = law.CLEANUP_NS,
            inherit: bool = True,
            default_spawns: int | None = None,
        ) -> None:
            dispatch.require_workers(workers)
            registry = _Registry(self)
            base.__init__(
                self,
                seed & chain.MASK64,
                workers,
                policies.index(steal_policy),
                min(yield_interval, 2**63 - 1),
                cleanup_ops,
                cleanup_ns,
                inherit,
                default_spawns,
                budget,
                registry,
                registry.revoked_serials,
                Counter(),
            )
            self.gate = None
            self.steal_policy = steal_policy
            self.choices = chain.RandomStream(seed, -1)
            self.entropy = chain.RandomStream(seed, -2)
            self.reports = deque(maxlen=dispatch.REPORTS_MAX)

        @property
        def tasks(self) -> Mapping[int, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
            return _Tasks(self)

        @property
        def done(self) -> Counter[state.OutcomeKind]:  # pyright: ignore[reportIncompatibleVariableOverride]
            return Counter({kind: n for kind, n in zip(state.OutcomeKind, self.ended, strict=True) if n})

    return Kernel


def _count_uses(registry: capability.Registry, cap: Capability, n: int) -> None:
    registry.count(cap, n)


def _checked_spawn_cap(kernel: Any, into: Any, spawner: Any) -> tuple[CapSpawn, bool]:
    """The spawn capability of `spawner`, and whether it is plain: without any limit on the tasks spawned under it."""
    cap = capability.require(spawner, spawner.capabilities, capability.CapSpawn, f"spawn into {into.name}")
    limits = [(c.max_tasks, c.task_budget) for c in cap.ancestors() if isinstance(c, capability.CapSpawn)]
    return cap, all(limit == (None, None) for limit in limits)


def _spawn_budget(kernel: Any, asked: budget.Budget, cap: CapSpawn | None, by_default: bool) -> budget.Budget:
    if cap is not None and cap.task_budget is not None:
        asked = asked.clamp(cap.task_budget)
    if by_default and asked.spawns is None:
        asked = asked.clamp(budget.Budget(spawns=kernel.default_spawns))
    return budget.UNSTATED if asked == budget.UNSTATED else asked


def _acquire_spawn(kernel: Any, into: Any, spawner: Any, cap: CapSpawn) -> None:
    kernel.registry.acquire(spawner, cap, "max_tasks", f"spawn into {into.name}")


def _nursery_capabilities(kernel: Any, owner: Any, passed: Any) -> capability.Capabilities:
    if passed is None:
        return capability.inheritable(owner.capabilities)
    return capability.delegate(kernel.registry, owner, owner.capabilities, passed)


def _cleanup_too_long(kernel: Any, task: Any) -> None:
    cancel.cut(kernel, task, f"cleanup took longer than {kernel.cleanup_ns / 1e9:g} s")


def _refuse_move(task: Any, to: state.State) -> None:
    raise IllegalTransition(f"task {task.name!r} ({task.id}) cannot go from {task.state.name} to {to.name}")


def _refuse_end(task: Any, kind: state.OutcomeKind) -> None:
    raise IllegalTransition(f"task {task.name!r} ({task.id}) cannot end {kind.name} while {task.state.name}")


def _refuse_nursery_move(record: Any, to: nursery.NurseryState) -> None:
    raise IllegalTransition(f"{record!r} cannot become {to.name}")


def _refuse_await(record: Any, task: Any) -> None:
    if task is record:
        raise ScopeMisuse(f"task {task.name!r} awaits itself, which would never end")
    raise ScopeMisuse(f"task {record.name!r} belongs to another runtime than {task.name!r}")


expose_law(
    {
        "State": state.State,
        "OutcomeKind": state.OutcomeKind,
        "Outcome": state.Outcome,
        "WakeState": wake.WakeState,
        "Notice": wake.Notice,
        "Lane": lanes.Lane,
        "WorkerStats": lanes.WorkerStats,
        "NurseryState": nursery.NurseryState,
        "TimerKind": timers.TimerKind,
        "CancelPhase": cancel.CancelPhase,
        "CancelKind": cancel.CancelKind,
        "CancelReason": cancel.CancelReason,
        "Cancelled": errors.Cancelled,
        "CapabilityDenied": errors.CapabilityDenied,
        "CapSpawn": capability.CapSpawn,
        "CapTimer": capability.CapTimer,
        "CapBudget": capability.CapBudget,
        "Bill": ledger.Bill,
        "Drain": law.Drain,
        "ChannelClosed": errors.ChannelClosed,
        "ScopeMisuse": errors.ScopeMisuse,
        "UNSTATED": budget.UNSTATED,
        "OP": costs.OP,
        "SUSPENDED": wake.SUSPENDED,
        "brief": brief,
        "TicketState": ticket.TicketState,
        "NOTHING": NOTHING,
        "ShortageRecord": ticket.ShortageRecord,
        "require": capability.require,
        "require_plain": budget.require_plain,
        "require_open": law.Kernel.require_open,
        "check_purse": law.Kernel.check_purse,
        "capabilities_for": law.Kernel.capabilities_for,
        "bill": ledger.Ledger.bill,
        "drain_owned": law.Kernel.drain_owned,
        "add_failure": nursery.add_failure,
        "count_uses": _count_uses,
        "checked_spawn_cap": _checked_spawn_cap,
        "spawn_budget": _spawn_budget,
        "acquire_spawn": _acquire_spawn,
        "affordable": pool.affordable,
        "name_pools": pool.name_pools,
        "close_named": pool.close_named,
        "note_counters": law.Kernel._note_counters,
        "nursery_capabilities": _nursery_capabilities,
        "release_leftovers": law.Kernel.release_leftovers,
        "cleanup_too_long": _cleanup_too_long,
        "refuse_move": _refuse_move,
        "refuse_end": _refuse_end,
        "refuse_nursery_move": _refuse_nursery_move,
        "refuse_await": _refuse_await,
    }
)


NativeKernel: Any = _native_kernel() if HAVE_NATIVE else None
if NATIVE and not TYPE_CHECKING:
    Kernel = NativeKernel
