"""How native functions end: the value or the exception that follows from the last message of the engine."""

from __future__ import annotations

from typing import Final

from bursar.errors import BudgetExceeded, NativeFailed, NativePanic, NativeUnavailable
from bursar.fibers.mailbox import FiberMessage

DONE, CANCELLED = 0, 2  # kinds of ends in janus_rt.h; the others are in `result_of_message`
REFUSED: Final = 19  # our own kind: the function was not started
PANICS: Final = {1: "it panicked with code {code}", 2: "it ran out of stack", 3: "it ran over its stack"}
REFUSALS: Final = {
    -5: "the engine refused it; the stack is perhaps too large",
    -6: "the native runtime is deterministic and starts no threads, or is being shut down",
    -7: "no memory, stack or thread is available",
    -10: "the native runtime is being shut down",
}


class FiberEntry:
    """A native function, with the options of `native()`."""

    __slots__ = ("address", "keep", "name", "stack", "symbol")

    def __init__(self, address: int, name: str, stack: int, keep: object) -> None:
        self.address = address
        self.name = name
        self.symbol = as_symbol(name)
        self.stack = stack
        self.keep = keep  # keeps its library loaded


def as_symbol(name: str) -> bytes:
    """The name as a C string."""
    return name.encode("utf-8", "replace").replace(b"\0", b"?")


def result_of_message(task: str, program: FiberEntry, message: FiberMessage) -> int:
    """The value of the task's function. Raises the error that says how the function ended."""
    function, code = f"task {task!r}: native function {program.name}", message.code
    match message.kind:
        case 0:  # DONE
            return code
        case 1:
            raise NativeFailed(f"{function} returned {code}, which means that it failed", task=task, code=code)
        case 2:
            stopped = f"{function} was stopped because the native runtime was shut down"
            raise NativeFailed(stopped, task=task, code=-1)
        case 3:
            how = PANICS.get(message.panic, "for an unknown reason").format(code=code)
            more = f"; give it more: native(f, stack={2 * program.stack})" if message.panic > 1 else ""
            raise NativePanic(f"{function} was ended: {how}{more}", task=task, code=code)
        case 4:
            raise BudgetExceeded(f"{function} needed more than its budget; spawn it with a larger one", task=task)
        case 19:  # REFUSED
            why = REFUSALS.get(code, f"the engine returned {code}")
            raise NativeUnavailable(f"{function} was not started: {why}")
        case _:
            raise NativeUnavailable(f"{function} runs in the parent of this forked process; get its result there")
