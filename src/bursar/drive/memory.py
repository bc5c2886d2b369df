"""The memory meter: charges each task's `memory` budget for what its code allocates.

C counts the allocations, in the interpreter's allocators (native/python/memory/meter.c). This file connects the counts
with the pools. Before each stretch of a task's code, the task's account is *entered*, with what the pool has left as
its limit. After the stretch, the growth of the account is charged to the pool, or refunded. So the account decides
during a stretch, and the pools are exact between two stretches.

A task that exceeds its limit gets `MemoryBudgetExceeded`, once. The error is raised where the task allocates, if that
is its own code in the main thread; otherwise at its next await, before the request is performed. A single allocation
far over the limit fails at once with `MemoryError`. If that error leaves the task, it becomes the task's
`MemoryBudgetExceeded`. An allocation that succeeded but cannot be paid stays due, and is charged when the pool can pay.

METER-1  an account's growth is charged whenever its task's code has stopped running, and before its pool is closed
METER-2  memory that a task has not freed at its end stays charged, to the parent of its pool; freeing it refunds that
METER-3  after the end of the run nothing is charged or refunded
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bursar.drive.program_calls import calls_program
from bursar.errors import BudgetExceeded, BursarError
from bursar.law.budget import MEMORY
from bursar.law.pool import Pool, refund

if TYPE_CHECKING:
    from bursar._native import MemoryAccount, MemoryAccountSet
    from bursar.backend import Kernel, Task

CLEANUP_BYTES: Final = 1 << 20  # what a task may hold beyond its limit while it cleans up: one arena of the interpreter


class _Holding(NamedTuple):
    account: MemoryAccount
    pool: Pool
    task: Task | None  # None after its end, because the record would keep its result alive


class MemoryMeter:
    """The memory of the tasks of one kernel."""

    __slots__ = ("_accounts", "_holdings", "_kernel", "_may_interrupt", "_native")

    def __init__(self, kernel: Kernel, may_interrupt: Callable[[FrameType | None], bool]) -> None:
        """`may_interrupt` says whether an asynchronous exception may be raised in a frame."""
        try:
            from bursar import _native  # absent where there was no compiler
        except ImportError:
            _native = None
        if not hasattr(_native, "MemoryAccountSet"):
            raise BursarError(
                "meter_memory=True needs the native extension, which this installation of Bursar does not have; "
                "install Bursar where a C compiler is available, or leave the option out"
            )
        self._native: Any = _native
        self._kernel = kernel
        self._may_interrupt = may_interrupt
        self._accounts: MemoryAccountSet | None = None
        self._holdings: dict[int, _Holding] = {}  # of live tasks, and of ended tasks that left memory allocated

    def open(self) -> None:
        """The run begins: install the hooks in the interpreter's allocators."""
        try:
            self._accounts = self._native.MemoryAccountSet(self._error_for)
        except RuntimeError as refusal:
            raise BursarError(f"meter_memory=True: {refusal}; leave the option out here") from None

    def close(self) -> None:
        """The run is over (METER-3). The last metered run removes the hooks."""
        if self._accounts is None:
            return
        try:
            self._refund_freed()
        finally:
            self._holdings.clear()
            self._accounts.close()
            self._accounts = None

    # ---- around a stretch of the program's code

    def enter(self, task: Task) -> MemoryAccount:
        """The task's code begins to run, in this thread. Returns its account, which native/python/memory/stretch.c
        keeps for the next stretch. That file has this method and `leave` a second time."""
        self._refund_freed()
        left = task.pools[MEMORY].left
        # A task that cleans up for another has no budget; a cut task must be closed in any case.
        if task.credit_of is not None or task.cut:
            left = None
        elif left is not None and task.cleanup_left >= 0:
            left += CLEANUP_BYTES
        account = self._account(task)
        account.enter(left)
        return account

    def leave(self, task: Task, account: MemoryAccount) -> BudgetExceeded | None:
        """The task's code has stopped for now. The caller raises the returned error at the task's await."""
        due = account.leave()
        if not due or self._accounts is None:  # everything is paid, and so within the limit; or METER-3
            return None
        self._charge_growth(task, account, due)
        return self.shortage(task, account.due) if account.notify_once() else None

    def ended(self, task: Task, error: BaseException | None) -> BudgetExceeded | None:
        """The task's code has ended (METER-1, METER-2). The caller raises the returned error instead of `error`."""
        if self._accounts is None:  # METER-3
            return None
        account = self._holdings.pop(task.id).account
        self._charge_growth(task, account, account.end())
        if account.held:
            self._holdings[task.id] = _Holding(account, task.pools[MEMORY], None)
        return self.shortage(task, account.refused) if type(error) is MemoryError and account.refused else None

    @calls_program
    def run(self, task: Task, resume: Callable[[Any], Any], value: Any) -> Any:
        """Meter one step of the task's coroutine. Returns what the coroutine yields, and raises what it raises."""
        account = self.enter(task)
        try:
            request = task.context.run(resume, value)
        except BaseException as raised:
            account.leave()
            instead = self.ended(task, raised)
            if instead is None:
                raise
            raise instead from raised
        error = self.leave(task, account)
        return request if error is None else self.run(task, task.work.throw, error)  # the request is not performed

    @calls_program
    def close_work(self, task: Task) -> None:
        """Meter the closing of the task's coroutine."""
        account = self.enter(task)
        try:
            task.context.run(task.work.close)
        finally:
            account.leave()
            self.ended(task, None)

    # ---- the accounts

    def _account(self, task: Task) -> MemoryAccount:
        holding = self._holdings.get(task.id)
        if holding is None:
            account = self._native.MemoryAccount(self._accounts, task.id)
            holding = self._holdings[task.id] = _Holding(account, task.pools[MEMORY], task)
        return holding.account

    def _charge_growth(self, task: Task, account: MemoryAccount, due: int) -> None:
        """Charge the pool for the growth of the account, or refund it."""
        if due:
            account.paid(self._kernel.charge_memory_growth(task, due))

    def _refund_freed(self) -> None:
        """Refund memory that other code freed and these tasks had allocated."""
        assert self._accounts is not None, "METER-3"
        for id in self._accounts.changed():
            holding = self._holdings.get(id)
            if holding is None:
                continue
            account, pool, task = holding
            if task is not None:
                self._charge_growth(task, account, account.due)
                continue
            due = account.due
            if due < 0:
                refund(pool, -due)
                account.paid(due)
            if not account.held:
                del self._holdings[id]

    # ---- errors

    def _error_for(self, id: int) -> BaseException | None:
        """C asks between two bytecodes of a task over its limit: the error to raise here, or None if not here."""
        here = inspect.currentframe()
        if here is None or not self._may_interrupt(here.f_back):
            return None
        account, _, task = self._holdings[id]
        assert task is not None, "METER-1"
        self._charge_growth(task, account, account.due)
        return self.shortage(task, account.due)

    def shortage(self, task: Task, needed: int) -> BudgetExceeded:
        """The error for a task that needs `needed` bytes more than it has."""
        return self._kernel.shortage(task, MEMORY, ((MEMORY, needed),))
