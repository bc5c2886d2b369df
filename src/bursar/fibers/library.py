"""The C library `libbursar_rt`: loads it, declares the functions that `native()` needs, and refuses forked processes.

The library is loaded when the first native function is made, not when the package is imported. The functions are those
of `native/abi/mailbox.h`. They are short and never wait, so they are called with the GIL held: releasing and taking the
GIL would cost more than the call. Code on the native workers never takes the GIL.

Rejected: an extension module around the library. It would depend on one version of the interpreter, while the library
does not use Python. And a program's own C code must link to the same library file that runs its tasks.

FORK-1  a process that was forked while the native runtime was up has none of its threads, so every call is refused
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
    "bursar_fiber_call_spawn": (
        c_int64,
        [c_void_p, c_uint64, c_void_p, c_void_p, c_char_p, c_size_t, POINTER(Budget)],
    ),
    "bursar_fiber_call_cancel": (None, [c_void_p]),
    "bursar_fiber_call_pause": (None, [c_void_p, c_int64]),
    "bursar_fiber_call_resume": (None, [c_void_p]),
    "bursar_fiber_call_fill": (c_int, [c_void_p, POINTER(Budget)]),
    "bursar_fiber_call_refuse": (None, [c_void_p]),
    "janus_rt_is_running": (ctypes.c_bool, []),
}


class _Loaded:
    """The state of the process."""

    library: Any = None
    was_up: bool = False  # whether the runtime was up just before the last fork
    forked: bool = False
    when_forked: ClassVar[list[Callable[[], None]]] = []


def path() -> Path:
    """The path of the library. Raises `NativeUnavailable` if it was not built."""
    found = Path(_native.__file__).parent / "sdk" / "lib" / FILE if _native is not None else None
    if found is None or not found.exists():
        raise NativeUnavailable(
            "native functions need Bursar's C library, which was not built when Bursar was installed; "
            "install it on Linux, x86-64 or AArch64, where a C compiler is available"
        )
    return found


def library() -> Any:
    """The library, with its functions declared. Raises `NativeUnavailable` where it cannot be used."""
    if is_forked():
        raise NativeUnavailable(
            "this process was forked while native workers ran, and threads do not survive a fork; "
            "run native functions in the parent, or start the process with the 'spawn' method"
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
    """Call this function in each forked child that has lost the native workers."""
    _Loaded.when_forked.append(call)


def is_forked() -> bool:
    return _Loaded.forked
