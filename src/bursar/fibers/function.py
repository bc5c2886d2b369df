"""`native()`: a C function as something to spawn. It runs as a fiber on the native workers, without the interpreter.

What it makes is an async function, and its task is an ordinary coroutine task: owned, named, cancelled, awaited,
recorded and explained like every other, and no rule of the law knows of it. One run of such a function is
`fibers.run`, and what crosses between the two sides `fibers.mailbox`.

Rejected: a class with `__call__`. Whoever spawns would have to find out that calling it makes a coroutine, which takes
longer than the spawn.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

from bursar.text import brief

# What needs ctypes is imported where it is used: most programs have no native functions, and it takes its time.

STACK_BYTES: Final = 64 << 10  # enough for the C library's own functions; memory is taken as it is used


class NativeFunction(Protocol):
    """What `native()` makes: an async function with one argument or none, to be spawned or awaited.

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
