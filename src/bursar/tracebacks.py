"""Hides Bursar's own frames in the tracebacks of a program's errors.

A program's error shows where the program called Bursar and then, at once, the program's frames that raised. The frames
of Bursar that called the program, or that passed the error on, are hidden. A function that passes an error on does it
in an `except` block:

    except BaseException as error:
        hide_own_frames(error)
        raise

A bare `raise` adds no frame, so this function is hidden too. Success costs nothing.

Only frames before the program's first frame are hidden. If the program has no frame in the traceback, the error comes
from Bursar. An error that Bursar raises on purpose then has an empty traceback: its message is enough. Any other error
keeps all its frames, because it may be a bug of Bursar.

Rejected: removing frames when an error is printed, by `sys.excepthook`. Loggers, debuggers and `except` blocks would
still show them.
"""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any, Final

from bursar.errors import BursarError

_PACKAGE: Final = "bursar."
_ON_PURPOSE: Final = (BursarError, BaseExceptionGroup, KeyboardInterrupt)
_TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"]  # a program's class may define the name differently

_GET: Final = dict[str, Any].get  # `f_globals` may be an object of a program's class


def is_own(frame: FrameType) -> bool:
    """Whether a frame runs a function of Bursar. The program may have put any object under `__name__`."""
    name = _GET(frame.f_globals, "__name__")
    return type(name) is str and name.startswith(_PACKAGE)


def traceback_of(error: BaseException) -> TracebackType | None:
    """The real traceback of an error, whatever its class defines."""
    return _TRACEBACK.__get__(error)


def hide_own_frames(error: BaseException) -> None:
    """Remove the frames of Bursar from the beginning of the error's traceback."""
    traceback = traceback_of(error)
    while traceback is not None and is_own(traceback.tb_frame):
        traceback = traceback.tb_next
    kind = type(error)
    if traceback is not None or (issubclass(kind, _ON_PURPOSE) and not issubclass(kind, AssertionError)):
        _TRACEBACK.__set__(error, traceback)
