"""`Checkpoint`: the object with which a plain function on a thread reports, pays, pauses and stops."""

from __future__ import annotations

from typing import Protocol


class CheckpointControl(Protocol):
    """Connects a checkpoint with the loop (`threads.checkpoint.ThreadControl`)."""

    number: int
    label: str

    def point(self, progress: float | None, message: str | None) -> None: ...

    def charge(self, ops: int) -> None: ...


class Checkpoint:
    """A plain function gets one for a parameter with this annotation: `checkpoint(progress=0.5, message="half
    done")`.

    A call costs one op. It reports progress (cut to 0 … 1) and a message, waits while the task is paused, and raises
    `Cancelled` if the task was asked to stop, at every call. It belongs to the thread of the function; another thread
    gets `ScopeMisuse`. It raises `BudgetExceeded` if the task cannot pay.

    ```python
    import bursar


    def work(rounds, checkpoint: bursar.Checkpoint):
        for done in range(rounds):
            checkpoint(progress=done / rounds)
        return rounds


    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(work, 10)
        print(task.result, "rounds for", task.spent.ops, "ops")


    bursar.run(main)
    ```

    ```text
    10 rounds for 11 ops
    ```
    """

    __slots__ = ("_control",)

    def __init__(self, control: CheckpointControl) -> None:
        self._control = control

    def __call__(self, progress: float | None = None, message: str | None = None) -> None:
        """Report progress (0 to 1), wait while paused, raise `Cancelled` if the task was asked to stop, and pay one
        op."""
        self._control.point(progress, message)

    def charge(self, ops: int) -> None:
        """Pay for `ops` more operations, or raise `BudgetExceeded`."""
        self._control.charge(ops)

    def __repr__(self) -> str:
        return f"<Checkpoint {self._control.number} of task {self._control.label.partition(' ')[0]}>"
