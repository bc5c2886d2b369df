"""Bursar installs everywhere: with a compiler the extension and the C library are there, without one all else is.

What a build needs beside Python and a compiler comes from the package index: a machine's own CMake is hidden from one.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def installed(tmp_path):
    """Install the checkout into a fresh environment; returns a function that runs a program of it."""
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")

    def install(*options, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "BURSAR_KERNEL"} | variables
        command = [programs / "python", "-m", "pip", "install", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

        def call(program, *args):
            found = programs / program if (programs / program).exists() else program
            path = os.pathsep.join([str(programs), environment["PATH"]])
            return subprocess.run(
                [found, *args], cwd=tmp_path, env=environment | {"PATH": path}, capture_output=True, text=True
            )

        return call

    return install


def info(call):
    answer = call("bursar", "info", "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def program_runs(call, tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import bursar\n\nasync def main():\n    await bursar.checkpoint()\n    return 'ran'\n")
    answer = call("bursar", "run", str(file))
    assert answer.stdout == "ran\n", answer.stderr
    return True


def demo_and_bench_run(call):
    """The commands whose programs are packages beside `bursar`."""
    demo = call("bursar", "demo", "--plain")
    assert demo.returncode == 0, demo.stderr
    assert "the same as in a run without an observer" in demo.stdout
    bench = call("bursar", "bench", "--help")
    assert bench.returncode == 0, bench.stderr
    assert "--json" in bench.stdout
    return True


def c_program_runs(call, tmp_path):
    """The example, outside the checkout, with nothing but what `bursar info` prints."""
    source = shutil.copy(ROOT / "examples" / "c" / "counting_house.c", tmp_path)
    for kind in ("", "--static"):
        command = f"cc -std=c11 {source} $(bursar info --cflags --libs {kind}) -o counting_house && ./counting_house"
        answer = call("sh", "-e", "-c", command)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.startswith("9592 primes below 100000\n")
    return True


@pytest.fixture
def without_cmake(tmp_path):
    """A path with everything that this machine's has, but CMake and what it drives."""
    hidden = {"cmake", "cmake3", "ctest", "ninja", "ninja-build"}
    folder = tmp_path / "tools"
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name not in hidden and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("options", [(), ("--editable",)], ids=["wheel", "editable"])
def test_with_a_compiler_the_native_extension_is_there(installed, tmp_path, without_cmake, options):
    call = installed(*options, f"{ROOT}[cli]", PATH=without_cmake)
    native = info(call)["native"]
    assert native["present"] is True
    assert native["build"]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert program_runs(call, tmp_path)
    assert demo_and_bench_run(call)
    assert c_program_runs(call, tmp_path)


@pytest.mark.parametrize("options", [(), ("--editable",)], ids=["plain", "editable"])
def test_without_a_compiler_the_install_is_pure_python(installed, tmp_path, options):
    call = installed(*options, f"{ROOT}[cli]", CC="/nonexistent")
    facts = info(call)
    assert facts["kernel"] == "python"
    assert facts["native"]["present"] is False
    assert "no working C compiler" in facts["native"]["why_it_matters"]
    assert "absent: " in call("bursar", "info").stdout
    flags = call("bursar", "info", "--cflags", "--libs")
    assert (flags.returncode, flags.stdout) == (2, "")
    assert "this install has no C library" in flags.stderr
    assert program_runs(call, tmp_path)
    assert demo_and_bench_run(call)


def test_the_core_needs_no_other_package(installed):
    call = installed(str(ROOT), CC="/nonexistent")
    code = "import bursar\nasync def main(): return 42\nprint(bursar.run(main))"
    answer = call("python", "-c", code)
    assert answer.stdout == "42\n", answer.stderr
    refused = call("bursar", "info")
    assert refused.returncode == 2
    assert "pip install 'bursar[cli]'" in refused.stderr
