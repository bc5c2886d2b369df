"""The face of the extension module `bursar._native` (native/python/module/module.c), for type checkers.

The module is absent where Bursar was installed without a C compiler: import it under `except ImportError`.
"""

from collections.abc import Callable
from typing import Any, Final, TypedDict, final

class BuildInfo(TypedDict):
    compiler: str
    compiler_version: str
    c_standard: str
    python: str
    fast_paths: bool

KERNEL: Final[bool]
"""Whether this build holds the native kernel."""

def build_info() -> BuildInfo: ...
def adopt(law: dict[str, Any], /) -> None:
    """Take over every class and function of the law that C uses, by their names."""

def expose(things: dict[str, Any], /) -> None:
    """Take over objects that C uses, by their names."""

def unexposed() -> list[str]:
    """The names that C uses and that no module has exposed yet."""

@final
class MemoryAccountSet:
    """The memory of one run. `tell(tag)` makes the error for a task that is over its limit; None: not here."""

    def __new__(cls, tell: Callable[[int], BaseException | None]) -> MemoryAccountSet: ...
    def changed(self) -> list[int]:
        """The tags of the accounts of which others have freed something since the last call."""
    def close(self) -> None: ...

@final
class MemoryAccount:
    """What one task holds of memory."""

    def __new__(cls, book: MemoryAccountSet, tag: int) -> MemoryAccount: ...
    def enter(self, left: int | None, /) -> None: ...
    def leave(self) -> int: ...
    def paid(self, bytes: int, /) -> None: ...
    def end(self) -> int: ...
    def untold(self) -> bool: ...
    @property
    def due(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def refused(self) -> int: ...

class TraceWriter:
    """Writes the notes of a native kernel into the buffer of a trace file."""

    def __new__(cls, layouts: dict[str, tuple[int, str]], page: bytearray, page_max: int) -> TraceWriter: ...
    @property
    def count(self) -> int: ...

@final
class TraceRing(TraceWriter):
    """Keeps the newest notes of a native kernel."""

    def __new__(
        cls, layouts: dict[str, tuple[int, str]], events_max: int, blob_bytes_max: int, chain: int
    ) -> TraceRing: ...
    @property
    def dropped(self) -> int: ...
    def put(self, record: bytes, blob_bytes: int, /) -> None: ...
    def records(self) -> list[tuple[bytes, bool]]: ...
    def before(self) -> tuple[Any, ...]: ...

def memory_hooks() -> tuple[bool, int]:
    """Whether the hooks of the meter are in place, and how many blocks have an owner."""
