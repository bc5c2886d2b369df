"""Where the C library is, and which flags a C program needs to use it.

The library is built with the extension and is installed beside it, in the folder `sdk`, which can be moved. Only the
pkg-config file in that folder has the flags. This module reads the file as pkg-config does, so that a machine needs no
pkg-config, and a user need not set PKG_CONFIG_PATH first.

Rejected: one function per folder, as numpy has. A program needs flags, not only folders.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import NamedTuple

ABSENT = (
    "this install has no C library; it is built with the native extension, on Linux on x86-64 or AArch64 with a C "
    "compiler; reinstall Bursar on such a machine"
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PLACE = "\0"


class Library(NamedTuple):
    """The C library of this install. Each flag is one string, without quotes for a shell."""

    version: str
    cflags: list[str]
    libs: list[str]
    static_libs: list[str]
    cmake_dir: str
    pkg_config_path: str


def library() -> Library | None:
    """The library beside the extension, or None."""
    try:
        from bursar import _native
    except ImportError:
        return None
    place = Path(_native.__file__).parent / "sdk"
    return library_in(place) if place.exists() else None


def library_in(place: Path) -> Library:
    """The library in this folder."""
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
        """The word with the file's folder filled in. This comes last, because the name of the folder may have blanks.
        `.../lib/pkgconfig/..` becomes `.../lib`."""
        before, found, path = word.partition(_PLACE)
        return before + os.path.normpath(f"{self._place}{path}") if found else word
