"""Which kernel a process gets, and what it is told if that is not the one it asked for."""

import os
import subprocess
import sys
import textwrap

import pytest
from support.time_limits import WAIT_S

from bursar import backend as kernel

WITHOUT = "import sys; sys.modules['bursar._native'] = None\n"
ASK = """
import bursar.backend
try:
    print(bursar.backend.kernel_in_use())
except bursar.BursarError as error:
    print(error)
"""

needs_native = pytest.mark.skipif(kernel.NativeKernel is None, reason="the native kernel was not built here")


def ask(asked, before="", program=ASK):
    environment = {name: value for name, value in os.environ.items() if name != "BURSAR_KERNEL"}
    if asked:
        environment["BURSAR_KERNEL"] = asked
    code = before + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_native
@pytest.mark.parametrize(("asked", "used"), [("", "native"), ("native", "native"), ("python", "python")])
def test_the_kernel_that_was_asked_for_is_used(asked, used):
    assert ask(asked) == used


def test_without_the_extension_everything_runs_on_the_python_kernel():
    program = """
    import bursar, bursar.backend

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(answer)
        return task.result

    async def answer():
        await bursar.sleep(1)
        return 42

    print(bursar.backend.kernel_in_use(), bursar.run(main, clock="virtual"))
    """
    assert ask("", WITHOUT, program) == "python 42"


def test_a_native_kernel_that_was_not_built_is_refused_with_the_remedy():
    said = ask("native", WITHOUT)
    assert said.startswith("BURSAR_KERNEL=native: the native kernel was not built when Bursar was installed")
    assert "unset BURSAR_KERNEL" in said


def test_no_other_kernel_is_known():
    assert ask("fast") == "BURSAR_KERNEL=fast: no such kernel; the kernels are 'python' and 'native'"


@needs_native
def test_the_choice_is_made_once(monkeypatch):
    other = "python" if kernel.NATIVE else "native"
    monkeypatch.setenv("BURSAR_KERNEL", other)
    with pytest.raises(kernel.BursarError, match=f"BURSAR_KERNEL={other}: this process has the .* kernel already"):
        kernel.kernel_in_use()
