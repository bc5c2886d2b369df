"""Builds the allocator that fails and counts (failing.c) for the interpreter and the extension under test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support.kernel import NATIVE

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "native" / "python"


@pytest.fixture(scope="session")
def free_lists():
    """The names of the free lists: every member of `ModuleState` of that type."""
    declared = re.findall(r"^ +FreeList ([^;]+);", (SOURCES / "module" / "module_state.h").read_text(), re.MULTILINE)
    return [name.strip() for names in declared for name in names.split(",")]


@pytest.fixture(scope="session")
def failing(tmp_path_factory, free_lists):
    """The path of the built allocator. Load it in a separate process: it stays in place until the interpreter ends."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    if not NATIVE:
        pytest.skip("for the native kernel")
    made = tmp_path_factory.mktemp("failing") / "failing.so"
    sources = [str(HERE / "failing.c"), str(SOURCES / "cpython" / "freelist.c")]
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), *sources]
    command += [f"-I{folder}" for folder in (sysconfig.get_paths()["include"], SOURCES.parent)]
    command += ["-DFREE_LISTS=" + " ".join(f"LIST({name})" for name in free_lists)]
    from bursar import _native

    command += [f"-DBURSAR_PRIVATE_LAYOUTS={_native.build_info()['private_layouts']:d}"]  # like the extension
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made
