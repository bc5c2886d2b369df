"""The tests in C: native/ is configured, built with warnings as errors, and ctest runs what was built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"


BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # cmake comes with the test tools


def needed(program: str) -> str:
    found = shutil.which(program, path=BESIDE)
    if found is None:
        pytest.skip(f"needs {program} on the path")
    return found


def built(folder: Path, *options: str, target: str = "all") -> Path:
    """The build folder, with `target` built in it."""
    cmake = needed("cmake")
    run(cmake, "-S", str(NATIVE), "-B", str(folder), "-DBURSAR_TESTS=ON", *options)
    run(cmake, "--build", str(folder), "--target", target, "--parallel", "2")
    return folder


def need_sanitizers(compiler: str, folder: Path) -> None:
    """They come in packages of their own."""
    program = folder / "probe.c"
    program.write_text("int main(void) { return 0; }\n")
    command = [compiler, "-fsanitize=address,undefined", str(program), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"needs the address and undefined sanitizers of {compiler}")


def run(*command: str) -> str:
    """Run a program; if it fails, its output is the message."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


def listed(pattern: str) -> set[str]:
    return {f"{path.parent.name}/{path.stem}" for path in Path(__file__).parent.glob(pattern)}


@pytest.mark.timeout(900)
def test_everything_in_c(tmp_path):
    folder = built(tmp_path)
    ctest = (needed("ctest"), "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", "-LE", "long")
    said = run(*ctest, "--parallel", "2")
    missing = {name for part in ("law", "fiber") for name in listed(f"{part}/test_*.c") if name not in said}
    assert not missing, f"ctest does not know {missing}"


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_the_long_forms_in_c(tmp_path):
    folder = built(tmp_path)
    run(needed("ctest"), "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", "-L", "long")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_fibers_under_the_sanitizers(tmp_path, sanitizers):
    need_sanitizers(needed("gcc"), tmp_path)
    options = (f"-DCMAKE_C_COMPILER={needed('gcc')}", f"-DBURSAR_SANITIZE={sanitizers}")
    folder = built(tmp_path / "build", *options, target="fiber_tests")
    run(needed("ctest"), "--test-dir", str(folder), "-R", "^fiber/", "--output-on-failure", "--no-tests=error")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_law_under_the_sanitizers(tmp_path, compiler):
    need_sanitizers(needed(compiler), tmp_path)
    options = (f"-DCMAKE_C_COMPILER={needed(compiler)}", "-DBURSAR_SANITIZE=address,undefined")
    folder = built(tmp_path / "build", *options, target="law_tests")
    run(needed("ctest"), "--test-dir", str(folder), "-R", "^law/", "--output-on-failure", "--no-tests=error")
