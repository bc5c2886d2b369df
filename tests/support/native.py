"""A small C library for the tests of native tasks, built when first asked for, linked to Bursar's own."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from bursar import NativeUnavailable
from support.requests import library
from support.time_limits import WAIT_S

NATIVE = Path(__file__).parents[2] / "native"
SOURCE = Path(__file__).with_name("native.c")


@functools.cache
def built() -> Path:
    """The path of the built library. Skips the test where there is no compiler, or no library of Bursar's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    try:
        ours = library.path()
    except NativeUnavailable as none:
        pytest.skip(str(none))
    folder = tempfile.TemporaryDirectory(prefix="bursar-native-")
    atexit.register(folder.cleanup)
    made = Path(folder.name) / "functions.so"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fstack-clash-protection", "-shared", "-fPIC"]
    link = [str(ours), f"-Wl,-rpath,{ours.parent}", "-pthread"]
    command = [compiler, *flags, f"-I{NATIVE / 'include'}", str(SOURCE), "-o", str(made), *link]
    subprocess.run(command, check=True, timeout=WAIT_S)
    return made


@functools.cache
def functions() -> ctypes.CDLL:
    return ctypes.CDLL(str(built()))


class Meeting(ctypes.Structure):
    """How a test and a function meet: it writes to a file when it runs, and may wait for `go`."""

    _fields_ = (("fd", ctypes.c_int32), ("go", ctypes.c_int32), ("ended", ctypes.c_int32))


@contextmanager
def meeting():
    """One, and the file to read from."""
    reader, writer = os.pipe()
    try:
        yield Meeting(fd=writer), reader
    finally:
        os.close(reader)
        os.close(writer)
