"""The owner table of the memory meter, in C: built without sanitizers, and with those of this machine."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "native"


def compiled(compiler: str, folder: Path, *options: str) -> Path:
    """The test program. Skips if a compiler, or one of its sanitizers, is not installed."""
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler} on the path")
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    if run(compiler, *options, str(probe), "-o", str(folder / "probe")).returncode:
        pytest.skip(f"needs {' '.join(options)} of {compiler}")
    program = folder / "test_owners"
    strict = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread"]
    sources = [str(HERE / "test_owners.c"), str(NATIVE / "python" / "memory" / "owners.c")]
    done = run(compiler, *strict, *options, f"-I{NATIVE}", f"-I{HERE.parent}", *sources, "-o", str(program))
    assert done.returncode == 0, done.stderr
    return program


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("options", [(), ("-fsanitize=thread",), ("-fsanitize=address,undefined",)], ids=" ".join)
def test_the_owner_table(compiler, options, tmp_path):
    done = run(str(compiled(compiler, tmp_path, *options)))
    assert done.returncode == 0, done.stderr
