"""Pointers: the addresses of native functions and of their arguments, and the objects that must stay alive for them.

A function is an address, or a function of a library that `ctypes` has loaded. Two kinds of `ctypes` functions are
refused: Python code behind a callback, and functions of a `PyDLL`. Both need the interpreter, whose frames do not fit
on a fiber's stack. Behind a plain address, they cannot be recognized.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, cast

from bursar.text import brief

_PYTHON_API: Final = 4  # FUNCFLAG_PYTHONAPI of ctypes: the function must be called with the GIL held
_ADDRESS_MAX: Final = 2 ** (8 * ctypes.sizeof(ctypes.c_void_p))
_Function: Final[Any] = ctypes.CFUNCTYPE(None).__mro__[1]
_Data: Final[Any] = ctypes.c_int.__mro__[2]
_Pointer: Final[Any] = ctypes.POINTER(ctypes.c_int).__mro__[1]


def function_at(function: Any) -> tuple[int, str]:
    """The address of a function, and its name, or "" if the name is not known."""
    if isinstance(function, int) and not isinstance(function, bool):
        if not 0 < function < _ADDRESS_MAX:
            raise ValueError(f"native({function}): this is not the address of a function")
        return function, ""
    if not isinstance(function, _Function):
        raise TypeError(
            f"native({brief(function, repr)}): give the address of a C function `int64_t f(void *)`, "
            "or the function of a ctypes library; an `async def` function is spawned as it is"
        )
    loaded = cast("Any", function)
    held: Any = loaded._objects or {}
    if any(type(thing).__name__ == "CThunkObject" for thing in held.values()):
        raise TypeError(
            f"native({brief(function, repr)}): this is Python code behind a C pointer, and Python does not run "
            "on native workers; spawn the Python function itself"
        )
    if loaded._flags_ & _PYTHON_API:
        raise TypeError(
            f"native({brief(function, repr)}): functions of a PyDLL need the interpreter's lock, and native workers "
            "run without it; load the library with ctypes.CDLL"
        )
    address = ctypes.cast(loaded, ctypes.c_void_p).value
    if not address:
        raise ValueError(f"native({brief(function, repr)}): a null pointer")
    return address, str(getattr(loaded, "__name__", ""))


def argument_at(argument: Any) -> tuple[int | None, object]:
    """The `void *` that the function gets, and the object that must be kept alive for it."""
    if argument is None:
        return None, None
    if isinstance(argument, int):
        if not -_ADDRESS_MAX // 2 <= argument < _ADDRESS_MAX:
            raise ValueError(f"the argument of a native function is one word, and {brief(argument)} does not fit")
        return int(argument) % _ADDRESS_MAX, None
    if isinstance(argument, (_Pointer, ctypes.c_void_p, ctypes.c_char_p, _Function)):
        return ctypes.cast(argument, ctypes.c_void_p).value, argument
    if isinstance(argument, _Data):
        return ctypes.addressof(argument), argument
    if isinstance(argument, bytes):
        return ctypes.cast(ctypes.c_char_p(argument), ctypes.c_void_p).value, argument
    try:
        held: Any = (ctypes.c_char * memoryview(argument).nbytes).from_buffer(argument)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"a native function takes None, a number, a ctypes object, bytes or a writable buffer, "
            f"and not {brief(argument, repr)}: {error}"
        ) from None
    return ctypes.addressof(held), held
