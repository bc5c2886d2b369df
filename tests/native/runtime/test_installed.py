"""The C library as a program finds it: installed, found by pkg-config and CMake, linked both ways; nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

ABI = Path(__file__).parents[3] / "native" / "abi"
EXAMPLE = Path(__file__).parent / "example.c"
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(example LANGUAGES C)
find_package(bursar_rt 1 REQUIRED)
add_executable(shared example.c)
target_link_libraries(shared PRIVATE bursar_rt::SHARED)
add_executable(static example.c)
target_link_libraries(static PRIVATE bursar_rt::STATIC)
"""


def needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program} on the path")
    return found


def run(*command: str, env: dict[str, str] | None = None) -> str:
    """Run a program; if it fails, its output is the message."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=env)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the library in it."""
    cmake, folder = needed("cmake"), tmp_path_factory.mktemp("bursar_rt")
    needed("cc")
    build, prefix = folder / "build", folder / "prefix"
    run(cmake, "-S", str(ABI), "-B", str(build), f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib")
    run(cmake, "--build", str(build), "--target", "bursar_rt_shared", "bursar_rt_static", "--parallel", "2")
    run(cmake, "--install", str(build), "--component", "bursar_rt")
    return prefix


def flags(prefix: Path, *options: str) -> list[str]:
    env = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    return run(needed("pkg-config"), *options, "bursar_rt", env=env).split()


def test_by_pkg_config(installed: Path, tmp_path: Path):
    program = tmp_path / "example"
    options = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", str(EXAMPLE), "-o", str(program)]
    run("cc", *options, *flags(installed, "--cflags", "--libs"), f"-Wl,-rpath,{installed / 'lib'}")
    assert run(str(program)).strip() == "338350"


def test_by_cmake_shared_and_static(installed: Path, tmp_path: Path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    shutil.copy(EXAMPLE, tmp_path / "example.c")
    cmake = needed("cmake")
    run(cmake, "-S", str(tmp_path), "-B", str(tmp_path / "build"), f"-DCMAKE_PREFIX_PATH={installed}")
    run(cmake, "--build", str(tmp_path / "build"))
    for kind in ("shared", "static"):
        assert run(str(tmp_path / "build" / kind)).strip() == "338350"


def test_only_the_interface_is_exported(installed: Path):
    listed = run(needed("nm"), "-D", "--defined-only", str(installed / "lib" / "libbursar_rt.so"))
    names = {line.split()[-1] for line in listed.splitlines()}
    assert names
    assert not {name for name in names if not name.startswith("janus_")}


def test_headers_are_c_plus_plus_too(installed: Path, tmp_path: Path):
    needed("c++")
    program = tmp_path / "one.cpp"
    program.write_text("#include <janus_interop.h>\nint main() { return janus_rt_is_running() ? 1 : 0; }\n")
    run("c++", "-Wall", "-Werror", str(program), "-o", str(tmp_path / "one"), *flags(installed, "--cflags", "--libs"))
