"""Where the C library lies, and what a C program must be told to use it.

The library is built with the extension and lies beside it, in `sdk`: a prefix that may be moved. Its pkg-config file is
the one place that knows the flags. It is read here as pkg-config reads it, for machines that have none and for programs
that would first have to be told where to look. Numpy's way, a function for each folder, was not taken: what has to be
known is more than folders.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import NamedTuple

ABSENT = (
    "this install has no C library: it is built along with the native extension, where there is a C compiler and the "
    "machine is Linux on x86-64 or AArch64; reinstall Bursar on such a machine to have it"
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PLACE = "\0"


class Library(NamedTuple):
    """The C library of this install. Flags are single words: nothing is quoted."""

    version: str
    cflags: list[str]
    libs: list[str]
    static_libs: list[str]
    cmake_dir: str
    pkg_config_path: str


def library() -> Library | None:
    """What is beside the extension, or None."""
    try:
        from bursar import _native
    except ImportError:
        return None
    place = Path(_native.__file__).parent / "sdk"
    return library_in(place) if place.exists() else None


def library_in(place: Path) -> Library:
    """The one in this folder, which may have been moved there."""
    described = place / "lib" / "pkgconfig"
    read = _Description(described / "bursar_rt.pc")
    return Library(
        version=read["Version"][0],
        cflags=read["Cflags"],
        libs=read["Libs"],
        static_libs=read["static_libs"],
        cmake_dir=str(place / "lib" / "cmake" / "bursar_rt"),
        pkg_config_path=str(described),
    )


class _Description:
    """A pkg-config file: `name=value` defines a variable, `Name: value` is a field."""

    def __init__(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").splitlines()
        pairs = [re.match(r"(\w+)\s*[=:]\s*(.*)", line) for line in lines]
        self._texts = {pair[1]: pair[2] for pair in pairs if pair} | {"pcfiledir": _PLACE}
        self._place = file.parent

    def __getitem__(self, name: str) -> list[str]:
        """The words of a variable or field."""
        text = self._texts[name]
        while _VARIABLE.search(text):
            text = _VARIABLE.sub(lambda found: self._texts[found[1]], text)
        return [self._placed(word) for word in text.split()]

    def _placed(self, word: str) -> str:
        """The file's own folder is filled in last: its name may have blanks. `.../lib/pkgconfig/..` is `.../lib`."""
        before, found, path = word.partition(_PLACE)
        return before + os.path.normpath(f"{self._place}{path}") if found else word
