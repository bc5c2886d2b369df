"""Building programs in C: the tools that this machine has, and a skip that names those that it has not.

The libraries that know nothing of Python, and their tests, are built once for all test files (`native_project`), in the
folder that scripts/test_native.py uses as well: what did not change since the last run is not compiled again.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # cmake comes with the test tools
ROOT = Path(__file__).parents[2]
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")


def needed(program: str) -> str:
    """Where the program is. Skips without it."""
    found = shutil.which(program, path=BESIDE)
    if found is None:
        pytest.skip(f"needs {program} on the path")
    return found


def run(*command: object, **options: object) -> str:
    """What a program prints; if it fails, its output is the message."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **{"env": tools(), **options}
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


def tools() -> dict[str, str]:
    """The environment, with the test tools on the path, and no words of advice to compilers and loaders."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LD_LIBRARY", "PKG_CONFIG"))}
    return kept | {"PATH": BESIDE}


def need_sanitizers(compiler: str, folder: Path, sanitizers: str = "address,undefined") -> None:
    """They come in packages of their own."""
    program = folder / "probe.c"
    program.write_text("int main(void) { return 0; }\n")
    command = [compiler, f"-fsanitize={sanitizers}", str(program), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"needs the sanitizers {sanitizers} of {compiler}")


def native_project(name: str, *options: str, targets: tuple[str, ...] = ()) -> Path:
    """The project native/ with its tests, built with these CMake options in a folder of this name: everything, or these
    targets. Another process that wants the same folder waits."""
    cmake, folder = needed("cmake"), ROOT / "build" / "native" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(cmake, "-S", ROOT / "native", "-B", folder, "-DBURSAR_TESTS=ON", *options)
        run(cmake, "--build", folder, "--parallel", "2", *(("--target", *targets) if targets else ()))
    return folder


def plain_project(*targets: str) -> Path:
    """The one by the usual compiler. An install of it has its libraries in a folder of an unusual name."""
    needed("cc")
    return native_project("plain", "-DCMAKE_INSTALL_LIBDIR=lib/triplet", targets=targets)
