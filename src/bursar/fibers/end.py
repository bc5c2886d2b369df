"""How native functions end: what a run was asked to run, and what its last letter means to whoever awaits it."""

from __future__ import annotations

from typing import Final

from bursar.errors import BudgetExceeded, NativeFailed, NativePanic, NativeUnavailable
from bursar.fibers.mailbox import GuestMessage

DONE, CANCELLED = 0, 2  # of the kinds of janus_rt.h, those that are not told by an error
REFUSED: Final = 19  # a kind of our own: it was not started
PANICS: Final = {1: "it panicked with code {code}", 2: "it ran out of stack", 3: "it ran over its stack"}
REFUSALS: Final = {
    -5: "the engine refused it: is the stack that it asks for too large?",
    -6: "the native runtime was started as a deterministic one, which runs nothing by itself, or shuts down",
    -7: "there is no memory, stack or thread for it",
    -10: "the native runtime is being shut down",
}


class FiberEntry:
    """What runs: a function, as `native()` was told."""

    __slots__ = ("address", "keep", "name", "stack", "symbol")

    def __init__(self, address: int, name: str, stack: int, keep: object) -> None:
        self.address = address
        self.name = name
        self.symbol = as_symbol(name)
        self.stack = stack
        self.keep = keep  # the library that it is in


def as_symbol(name: str) -> bytes:
    """A name, for the engine."""
    return name.encode("utf-8", "replace").replace(b"\0", b"?")


def result_of_message(task: str, program: FiberEntry, message: GuestMessage) -> int:
    """What the function of that task came to: its value, or the error that stands for how it ended."""
    function, code = f"task {task!r}: native function {program.name}", message.code
    match message.kind:
        case 0:  # DONE
            return code
        case 1:
            raise NativeFailed(f"{function} returned {code}, which means that it failed", task=task, code=code)
        case 2:
            told = f"{function} was stopped by somebody else: the native runtime was shut down"
            raise NativeFailed(told, task=task, code=-1)
        case 3:
            how = PANICS.get(message.panic, "for an unknown reason").format(code=code)
            more = f"; give it more: native(f, stack={2 * program.stack})" if message.panic > 1 else ""
            raise NativePanic(f"{function} is gone: {how}{more}", task=task, code=code)
        case 4:
            raise BudgetExceeded(f"{function} needed more than it was granted", task=task)
        case 19:  # REFUSED
            why = REFUSALS.get(code, f"the engine answered {code}")
            raise NativeUnavailable(f"{function} was not started: {why}")
        case _:
            raise NativeUnavailable(f"{function} runs in the process that this one was forked from")
