"""The face of the extension module `bursar._native` (native/python/module.c), for type checkers.

The module is absent where Bursar was installed without a C compiler: import it under `except ImportError`.
"""

from typing import Final, TypedDict

class BuildInfo(TypedDict):
    compiler: str
    compiler_version: str
    c_standard: str
    python: str

KERNEL: Final[bool]
"""Whether this build holds the native kernel."""

def build_info() -> BuildInfo: ...
