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
    """What `native()` makes: an async function, to be spawned or awaited."""

    @property
    def address(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def stack(self) -> int: ...

    async def __call__(self, argument: Any = None, /) -> int: ...


def native(function: Any, /, *, name: str | None = None, stack: int = STACK_BYTES) -> NativeFunction:
    """A C function `int64_t f(void *)`, given by its address or as a `ctypes` function, as something to spawn.

    `nursery.spawn(native(f), argument)` runs it on the native workers, without the interpreter. The argument is None, a
    number, a ctypes object, bytes or a writable buffer, and is kept alive. Its value is the task's; a negative one is a
    failure. Needs `CapExecutor` with "native".

    name    what it is called; default: its symbol
    stack   bytes of stack
    """
    from bursar.fibers import library
    from bursar.fibers import run as native_run
    from bursar.fibers.pointers import function_at

    library.library()
    address, symbol = function_at(function)
    if type(stack) is not int or stack < 1:
        raise ValueError(f"native(stack={stack!r}): must be a whole number of bytes, at least 1")
    title = brief(name) if name else symbol or f"native function at {address:#x}"
    return native_run.as_async_function(native_run.Program(address, title, stack, cast("object", function)))
