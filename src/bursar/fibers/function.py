"""`native()` makes a spawnable function of a C function, which runs as a fiber on the native workers, without the GIL.

`native()` returns an async function. Its task is an ordinary coroutine task: owned, named, cancelled, awaited, recorded
and explained like every other task. The law has no rule for native functions. `fibers.run` performs one run of such a
function; `fibers.mailbox` carries requests to the engine and messages back.

Rejected: a class with `__call__`. A spawn would have to find out that the call makes a coroutine, which takes longer
than the spawn itself.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

from bursar.text import brief

# Modules that need ctypes are imported on first use: ctypes is slow to import, and most programs do not need it.

STACK_BYTES: Final = 64 << 10  # enough for functions of the C library; only the part in use takes memory


class NativeFunction(Protocol):
    """What `native()` returns: an async function with one argument or none, to spawn or await.

    It returns the value of the C function, or raises `NativeFailed`, `NativePanic`, `BudgetExceeded` or
    `NativeUnavailable`. Each wait for it costs a syscall. A cancelled task ends when the function has returned.
    """

    @property
    def address(self) -> int:
        """The address of the function."""
        ...

    @property
    def name(self) -> str:
        """The name of its tasks."""
        ...

    @property
    def stack(self) -> int:
        """Bytes of stack."""
        ...

    async def __call__(self, argument: Any = None, /) -> int: ...


def native(function: Any, /, *, name: str | None = None, stack: int = STACK_BYTES) -> NativeFunction:
    """A C function `int64_t f(void *)`, given by its address or as a `ctypes` function, as a function to spawn or
    await.

    It runs on the native workers, without the interpreter. The argument is None, a number, a ctypes object, bytes or a
    writable buffer, and is kept alive. The function's value is the task's value; a negative value is a failure. Needs
    `CapExecutor` with `"native"`.

    Args:
        function: The address, or a function of a `ctypes` library.
        name: The name of its tasks; by default its symbol.
        stack: Bytes of stack.

    Raises:
        NativeUnavailable: There is no C library, or the process was forked.
        TypeError: Not a C function, or Python code behind a callback.
        ValueError: A null pointer.
    """
    from bursar.fibers import library
    from bursar.fibers import run as native_run
    from bursar.fibers.end import FiberEntry
    from bursar.fibers.pointers import function_at

    library.library()
    address, symbol = function_at(function)
    if type(stack) is not int or stack < 1:
        raise ValueError(f"native(stack={stack!r}): must be a whole number of bytes, at least 1")
    title = brief(name) if name else symbol or f"native function at {address:#x}"
    return native_run.as_async_function(FiberEntry(address, title, stack, cast("object", function)))
