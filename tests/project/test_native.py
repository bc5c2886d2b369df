"""The native extension as this environment has it.

The build falls back to pure Python when the C code does not compile. That is right for a user without a
compiler and wrong for us: with a compiler at hand, a missing extension is a broken build.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest
from support.time_limits import WAIT_S

COMPILERS = ("cc", "gcc", "clang", "cl")


@pytest.fixture
def native():
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip("no C compiler here, so no native extension")
    from bursar import _native

    return _native


def test_says_what_built_it(native):
    info = native.build_info()
    assert set(info) == {"compiler", "compiler_version", "c_standard", "python", "fast_paths", "private_layouts"}
    assert info["c_standard"] in {"C11", "C17", "C23"}
    assert info["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_holds_a_kernel(native):
    assert native.KERNEL is True


def test_has_no_static_state(native):
    """A second copy beside the first one is legal, and the two are not one."""
    spec = importlib.util.spec_from_file_location("bursar._native", native.__file__)
    second = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(second)
    assert second is not native
    assert second.build_info() == native.build_info()


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_says_that_it_needs_the_gil():
    code = "import sys; print(sys._is_gil_enabled()); import bursar._native; print(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, check=True, timeout=WAIT_S, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
