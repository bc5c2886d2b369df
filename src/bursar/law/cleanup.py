"""Cleanup: the allowance of a task that was cancelled or ran out of budget.

After `Cancelled` or `BudgetExceeded` was delivered, the code of the task may still await, to clean up. The allowance
bounds this in ops and in time. `Ledger._pay_cleanup` takes the ops, and a timer of kind CLEANUP measures the time.
When either is spent, `cancel.cut` ends the task.

The time stops while the task only waits for children that were cancelled: they have allowances of their own, or
shields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bursar.law.timers import TimerKind

if TYPE_CHECKING:
    from bursar.law.ledger import Ledger
    from bursar.law.task import Task


def begin_cleanup(kernel: Ledger, task: Task) -> None:
    """Start the cleanup of a task: from now on its cleanup allowance counts."""
    if task.cleanup_left < 0:
        task.cleanup_left = kernel.cleanup_ops
        task.cleanup_left_ns = kernel.cleanup_ns
        resume_cleanup(kernel, task)
        if task.obligations:
            kernel.draining_holders[task] = None
        kernel.note("cleanup_begun", task)


def pause_cleanup(kernel: Ledger, task: Task) -> None:
    """Stop the cleanup time of a task that only waits for cancelled children. They have their own allowances."""
    if task.cleanup_timer is not None:
        task.cleanup_left_ns = max(0, task.cleanup_timer.deadline_ns - kernel.now_ns)
        kernel.timers.disarm(task.cleanup_timer)
        task.cleanup_timer = None


def resume_cleanup(kernel: Ledger, task: Task) -> None:
    """Let the cleanup time run again, if the task cleans up and does not only wait for cancelled children."""
    inner = task.inner
    if inner is not None and inner.exiting and inner.body_of is not None and inner.body_of.reason is not None:
        return
    if task.cleanup_left >= 0 and task.cleanup_timer is None:
        deadline_ns = kernel.now_ns + task.cleanup_left_ns
        task.cleanup_timer = kernel.timers.arm(deadline_ns, TimerKind.CLEANUP, task)


def end_cleanup(kernel: Ledger, task: Task) -> None:
    """The task left the cancelled block in time: its cleanup is over."""
    if task.cleanup_left >= 0:
        kernel.note("cleanup_ended", task)
    task.cleanup_left = -1
    kernel.draining_holders.pop(task, None)
    pause_cleanup(kernel, task)
