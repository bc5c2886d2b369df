"""The seam between Python and C: one table of what exists in both, and exactly which methods C replaces.

The law and the operations are written in Python, which is the specification. `bursar._native` holds some of them a
second time, in C. Where the native kernel runs, each class or function below is replaced in one of three ways, and the
declaration at the class says which:

    @accelerated                        The C type, or function, of the same name takes the place of the whole class.
    @methods_on("TaskHandle", ...)      The C type makes the objects, and the methods of the Python class are put on
                                        it, except those that `replaces` names: these are C. `__init__` and slots are
                                        always C.
    derived_from_c("Kernel", ...)       A Python class derives from the C type and from the class of the law; C replaces
                                        the methods that `replaces` names.

`TWINS` is the table that results; to read it, see `docs/internals/native/seam.md`. A method that C has and `replaces`
does not name, or the other way round, is an error at import (SEAM-2), so no method is replaced unnoticed. A test
compares the table with the built module, name by name.

`expose_to_c` hands Python objects to C. C lists the names that it uses in native/python/module/names_from_python.h.

Rejected: putting the methods of a class on the C type unless the C type has one of that name. A method added in C then
switched the Python one off, and neither file said so.

SEAM-2  C replaces exactly the methods that the declaration of their class names
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import Any, Final, Literal, NamedTuple, TypeVar, overload

T = TypeVar("T")

KERNEL_VARIABLE: Final = "BURSAR_KERNEL"

try:
    from bursar import _native
except ImportError:
    _native = None

HAVE_NATIVE: Final = bool(getattr(_native, "KERNEL", False))  # whether the C kernel was built
NATIVE: Final = HAVE_NATIVE and os.environ.get(KERNEL_VARIABLE, "") in ("", "native")  # whether it runs this process

# Names that every class has, or that only the code that makes an object needs.
_OF_EVERY_CLASS: Final = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__slots__", "__init__", "__new__", "__orig_bases__"}
    | {"__class_getitem__", "__static_attributes__", "__firstlineno__"}
)


class Twin(NamedTuple):
    """One row of the table: a class or function of Python that exists in C too."""

    python: Any  # the class or function that is written in Python
    c: str  # its name in `bursar._native`
    how: Literal["function", "whole", "methods", "derived"]
    replaces: frozenset[str]  # the methods that C replaces; of "whole" and "function" everything
    adds: frozenset[str]  # the names that only the C type has
    omits: frozenset[str]  # public names of the Python class that the C type does not need


TWINS: Final[dict[str, Twin]] = {}  # by module and name

# The C types that have no Python class, and what each of them is.
ONLY_IN_C: Final = {
    "Arguments": "the arguments of a task that has not begun",
    "Checkpoint": "the one request that `checkpoint()` returns",
    "Children": "the live tasks of a nursery, as a mapping",
    "EventWait": "the request that `Event.wait` returns",
    "MemoryAccount": "what one task holds of memory",
    "MemoryAccountSet": "the memory of one run",
    "Next": "one step of `async for` over a channel",
    "TraceWriter": "writes the records of a trace file",
    "Resume": "the box in which the driver sends a result into a coroutine",
    "TraceRing": "keeps the newest records of a trace in memory",
    "SpawnTerms": "pools, capabilities and spawn capability, shared by tasks that were spawned alike",
    "QueueView": "a queue of a worker or a kernel, for reading",
}


def _row(
    thing: Any,
    c: str,
    how: Literal["function", "whole", "methods", "derived"],
    replaces: Iterable[str] = (),
    adds: Iterable[str] = (),
    omits: Iterable[str] = (),
) -> None:
    TWINS[f"{thing.__module__}.{thing.__qualname__}"] = Twin(
        thing, c, how, frozenset(replaces), frozenset(adds), frozenset(omits)
    )


@overload
def accelerated(thing: T, /) -> T: ...
@overload
def accelerated(*, adds: Iterable[str] = (), omits: Iterable[str] = ()) -> Callable[[T], T]: ...
def accelerated(thing: Any = None, /, *, adds: Iterable[str] = (), omits: Iterable[str] = ()) -> Any:
    """Declares that a class or function exists in C under the same name. Returns the one in use."""

    def choose(thing: Any) -> Any:
        name: str = thing.__name__
        _row(thing, name, "whole" if isinstance(thing, type) else "function", (), adds, omits)
        return getattr(_native, name) if NATIVE else thing

    return choose if thing is None else choose(thing)


def methods_on(c: str, *, replaces: Iterable[str], adds: Iterable[str] = ()) -> Callable[[type[T]], type[T]]:
    """Declares that the C type `c` makes the objects of a class: puts the methods on it that C does not replace."""

    def put(kind: type[T]) -> type[T]:
        _row(kind, c, "methods", replaces, adds)
        if not NATIVE:
            return kind
        made: type[T] = getattr(_native, c)
        methods = {
            name: value
            for name, value in vars(kind).items()
            if name not in _OF_EVERY_CLASS and not isinstance(value, MemberDescriptorType)
        }
        _check(kind, methods.keys() & vars(made).keys(), replaces)
        for name, value in methods.items():
            if name not in vars(made):
                setattr(made, name, value)
        return made

    return put


def derived_from_c(c: str, kind: type, *, replaces: Iterable[str]) -> Any:
    """Declares that a class derives from the C type `c` and from `kind`, in this order. Returns the C type."""
    _row(kind, c, "derived", replaces)
    made: type = getattr(_native, c)
    in_python = {name for base in kind.__mro__[:-1] for name in vars(base)} - _OF_EVERY_CLASS
    _check(kind, in_python & vars(made).keys(), replaces)
    return made


def _check(kind: type, replaced: Iterable[str], declared: Iterable[str]) -> None:
    """SEAM-2."""
    wrong = sorted(frozenset(replaced) ^ frozenset(declared))
    if wrong:
        raise SystemError(
            f"SEAM-2: {kind.__module__}.{kind.__qualname__} and its C type do not agree on {', '.join(wrong)}; name in "
            "`replaces` what C defines, or build the extension again if it is older than the Python files"
        )


def expose_law(things: dict[str, Any]) -> None:
    """Hands all objects of the law that C uses to C, in one call. A missing name is an error (SEAM-1)."""
    if HAVE_NATIVE and _native is not None:
        _native.adopt(things)


def expose_to_c(**things: Any) -> None:
    """Hands objects to C under these names, which native/python/module/names_from_python.h lists (SEAM-1)."""
    if HAVE_NATIVE and _native is not None:
        _native.expose(things)
