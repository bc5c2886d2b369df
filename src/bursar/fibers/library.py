"""The C library `libbursar_rt` as Python sees it: where it is, what of it `native()` needs, where it cannot be used.

It is loaded when the first native function is made, never by the import of the package. The functions are those of
`native/abi/guest.h`. They are short and wait for nobody, so they are called with the interpreter locked: letting it go
and taking it again would cost more than the call. What runs on the native workers never asks for that lock.

Rejected: an extension module around the library. It would be linked to one interpreter's interface, while the library
knows nothing of Python; and a program's own C code must find the very library that runs its tasks, which is a file.

FORK-1  a process that was forked while the runtime was up has none of its threads: it is refused, whatever it asks for
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, ClassVar, Final

from bursar.errors import NativeUnavailable

try:
    from bursar import _native
except ImportError:
    _native = None

FILE: Final = "libbursar_rt.so.1"
COMPONENTS_N: Final = 5


class Budget(ctypes.Structure):
    """`janus_budget`."""

    _fields_ = (("amounts", c_int64 * COMPONENTS_N),)


_FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "bursar_mailbox_open": (c_void_p, [c_int]),
    "bursar_mailbox_take": (c_size_t, [c_void_p, c_void_p, c_size_t]),
    "bursar_mailbox_close": (c_int, [c_void_p]),
    "bursar_guest_spawn": (
        c_int64,
        [c_void_p, c_uint64, c_void_p, c_void_p, c_char_p, c_size_t, POINTER(Budget)],
    ),
    "bursar_guest_cancel": (None, [c_void_p]),
    "bursar_guest_pause": (None, [c_void_p, c_int64]),
    "bursar_guest_resume": (None, [c_void_p]),
    "bursar_guest_fill": (c_int, [c_void_p, POINTER(Budget)]),
    "bursar_guest_refuse": (None, [c_void_p]),
    "janus_rt_is_running": (ctypes.c_bool, []),
}


class _Loaded:
    """What there is once per process."""

    library: Any = None
    was_up: bool = False  # when this process was forked, or is about to be
    forked: bool = False
    when_forked: ClassVar[list[Callable[[], None]]] = []


def path() -> Path:
    """Where the library is. Raises if it was not built."""
    found = Path(_native.__file__).parent / "sdk" / "lib" / FILE if _native is not None else None
    if found is None or not found.exists():
        raise NativeUnavailable(
            "native functions need Bursar's C library, which was not built when Bursar was installed; "
            "install it on Linux, x86-64 or AArch64, where a C compiler is available"
        )
    return found


def library() -> Any:
    """The library, loaded and declared. Raises where it cannot be used."""
    if is_forked():
        raise NativeUnavailable(
            "this process was forked while native workers ran, and has none of them; "
            "run native functions in the parent, or start the process by 'spawn'"
        )
    if _Loaded.library is None:
        file = path()
        try:
            loaded = ctypes.PyDLL(str(file))
        except OSError as error:
            raise NativeUnavailable(f"the C library {file} cannot be loaded: {error}") from None
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
        _Loaded.library = loaded
    return _Loaded.library


def _before_fork() -> None:
    _Loaded.was_up = _Loaded.library.janus_rt_is_running()


def _after_fork() -> None:
    _Loaded.forked = _Loaded.forked or _Loaded.was_up  # FORK-1
    if _Loaded.forked:
        for call in _Loaded.when_forked:
            call()


def when_forked(call: Callable[[], None]) -> None:
    """Have this called in a child that has lost the native workers."""
    _Loaded.when_forked.append(call)


def is_forked() -> bool:
    return _Loaded.forked
