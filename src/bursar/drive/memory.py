"""Metered memory: what the program's code allocates while a task runs is charged to the task's `memory` budget.

The counting is done in C, in the interpreter's allocators (native/python/memory/meter.c); here is what the law makes of
it. Around each stretch of a task's code its account is *entered*, with what its pool has left as the limit; afterwards
the account is *settled*: its growth is charged to the pool, or refunded. So during a stretch the account decides, and
between two of them the pools are right.

A task that goes over its limit gets `MemoryBudgetExceeded`, once: where it allocates if that is its own code in the
main thread, else at its next await, before what it asks for is done. A single request far over the limit is refused
where it is made, by the `MemoryError` that the interpreter knows; if that leaves the task, it becomes the task's
`MemoryBudgetExceeded`. What was let through and cannot be paid stays due, and is charged when the pool has money.

METER-1  an account is settled whenever its task's code has stopped running, and before its pool is closed
METER-2  what a task has not freed at its end stays charged, to the pool that its own came from; freeing it refunds that
METER-3  a run that is over settles nothing any more
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bursar.drive.program_calls import calls_program
from bursar.errors import BudgetExceeded, BursarError
from bursar.law.budget import MEMORY, Pool, refund

if TYPE_CHECKING:
    from bursar._native import MemoryAccount, MemoryAccountSet
    from bursar.backend import Kernel, Task

CLEANUP_BYTES: Final = 1 << 20  # what a task that tidies up may hold beyond its limit: one arena of the interpreter


class _Holding(NamedTuple):
    account: MemoryAccount
    pool: Pool
    task: Task | None  # None once it is over: the record would keep its result alive


class MemoryMeter:
    """The memory of the tasks of one kernel."""

    __slots__ = ("_accounts", "_holdings", "_kernel", "_may_interrupt", "_native")

    def __init__(self, kernel: Kernel, may_interrupt: Callable[[FrameType | None], bool]) -> None:
        """`may_interrupt` says whether an error may be raised in a frame."""
        try:
            from bursar import _native  # absent where there was no compiler
        except ImportError:
            _native = None
        if not hasattr(_native, "MemoryAccountSet"):
            raise BursarError(
                "meter_memory=True needs the native extension, and this installation of Bursar has none; "
                "install it again where there is a C compiler, or leave the option out"
            )
        self._native: Any = _native
        self._kernel = kernel
        self._may_interrupt = may_interrupt
        self._accounts: MemoryAccountSet | None = None
        self._holdings: dict[int, _Holding] = {}  # of tasks that live, and of those that left something behind

    def open(self) -> None:
        """The run begins: put the hooks into the interpreter's allocators."""
        try:
            self._accounts = self._native.MemoryAccountSet(self._error_for)
        except RuntimeError as refusal:
            raise BursarError(f"meter_memory=True: {refusal}; leave the option out here") from None

    def close(self) -> None:
        """The run is over: the last one takes the hooks out (METER-3)."""
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
        """The task's code runs from here on, in this thread. native/python/memory/stretch.c needs its account for
        the next time: there this and `leave` are written once more."""
        self._refund_freed()
        left = task.pools[MEMORY].left
        if task.credit_of is not None or task.cut:  # who tidies up for another has no money, who is closed no choice
            left = None
        elif left is not None and task.cleanup_left >= 0:
            left += CLEANUP_BYTES
        account = self._account(task)
        account.enter(left)
        return account

    def leave(self, task: Task, account: MemoryAccount) -> BudgetExceeded | None:
        """It does not run any more, but will again. What is returned is to be raised where it stands."""
        due = account.leave()
        if not due or self._accounts is None:  # all of it is paid for, and so within the limit; or METER-3
            return None
        self._charge_growth(task, account, due)
        return self.shortage(task, account.due) if account.untold() else None

    def ended(self, task: Task, error: BaseException | None) -> BudgetExceeded | None:
        """Its account was left, for good (METER-1, METER-2). What is returned is to be raised instead of `error`."""
        if self._accounts is None:  # METER-3
            return None
        account = self._holdings.pop(task.id).account
        self._charge_growth(task, account, account.end())
        if account.held:
            self._holdings[task.id] = _Holding(account, task.pools[MEMORY], None)
        return self.shortage(task, account.refused) if type(error) is MemoryError and account.refused else None

    @calls_program
    def run(self, task: Task, resume: Callable[[Any], Any], value: Any) -> Any:
        """All of that around one step of the task's coroutine: returns what it yields, raises how it ends."""
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
        return request if error is None else self.run(task, task.work.throw, error)  # what it asks for is not done

    @calls_program
    def close_work(self, task: Task) -> None:
        """And around closing it."""
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
        """Bring the pool to what the account says."""
        if due:
            account.paid(self._kernel.charge_memory_growth(task, due))

    def _refund_freed(self) -> None:
        """Others have freed what these tasks had allocated: refund it."""
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

    # ---- what a task is told

    def _error_for(self, id: int) -> BaseException | None:
        """Between two bytecodes of a task that went over its limit: the error to raise, or None if not here."""
        here = inspect.currentframe()
        if here is None or not self._may_interrupt(here.f_back):
            return None
        account, _, task = self._holdings[id]
        assert task is not None, "METER-1"
        self._charge_growth(task, account, account.due)
        return self.shortage(task, account.due)

    def shortage(self, task: Task, needed: int) -> BudgetExceeded:
        """What a task is told that needs so many bytes more than it has."""
        return self._kernel.shortage(task, MEMORY, ((MEMORY, needed),))
