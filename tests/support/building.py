"""Building programs in C: the tools that this machine has, and a skip that names those that it has not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # cmake comes with the test tools
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
