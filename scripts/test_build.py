"""Builds the extension and the C library in another way, and runs tests from Python on that build.

    python scripts/test_build.py sanitized                 all of its tests
    python scripts/test_build.py no-fast-paths --quick     a few files, for `make test`
    python scripts/test_build.py sanitized tests/unit -x   any arguments of pytest

    sanitized           AddressSanitizer and UndefinedBehaviorSanitizer check every access
    no-fast-paths       every operation takes its slow path (BURSAR_FAST_PATHS=OFF), and decides the same
    no-private-layouts  the extension uses no private layout of CPython (BURSAR_PRIVATE_LAYOUTS=OFF)

The build and a copy of the package are in a folder of build/, which PYTHONPATH puts before the install. The install is
editable, and its import hook would find the usual extension first. A `sitecustomize` in this folder removes the hook,
in child processes as well.

The sanitizers' library must be loaded before anything else (LD_PRELOAD). Python's own arenas would hide accesses to
freed records (PYTHONMALLOC=malloc). The memory meter does not work without these arenas, so its tests are left out.
Tests that fork are left out too: the child may wait for ever for a lock of the sanitizer's allocator that another
thread held at the fork. Leaks are not checked, because an interpreter never frees all its memory;
tests/native/kernel/test_lifetimes.py counts objects instead.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["src/bursar", "benchmarks/bursar_benchmarks", "examples/demo/bursar_demo"]  # those of pyproject.toml
IN_PROCESS = ["unit", "law", "ops", "trace", "drive", "threads", "fibers", "io", "hosts", "supervision", "evidence"]
IN_PROCESS += ["attack", "model", "parity", "determinism"]
IN_PROCESS += ["native/kernel"]  # the folders in which tasks run in the process of the tests
SAME = ["determinism", "parity/test_kernels.py", "model/test_kernels.py"]  # the decisions of the kernel in Python
UNHOOK = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "_editable_skbc_bursar"]
"""


@dataclass(frozen=True)
class Build:
    """One way to build the extension: its CMake options, and what to run on it."""

    options: tuple[str, ...]
    quick: tuple[str, ...]
    pytest: tuple[str, ...] = ()
    sanitized: bool = False

    def environment(self, path: Path) -> dict[str, str]:
        found = {**os.environ, "PYTHONPATH": str(path), "BURSAR_KERNEL": "native"}
        if self.sanitized:
            found |= {
                "PYTHONMALLOC": "malloc",
                "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
                "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:handle_segv=1:detect_stack_use_after_return=0",
                "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            }
        return found


NODE = "not node"  # inside node there is no extension
BUILDS = {
    "sanitized": Build(
        options=("-DBURSAR_SANITIZE=address,undefined",),
        quick=tuple(f"ops/test_{name}.py" for name in ("nursery", "channel", "task", "scope", "sync")),
        pytest=("--timeout", "600", "--ignore=tests/drive/test_memory.py", "-k", f"not fork and {NODE}"),
        sanitized=True,
    ),
    "no-fast-paths": Build(("-DBURSAR_FAST_PATHS=OFF",), quick=tuple(SAME), pytest=("-k", NODE)),
    "no-private-layouts": Build(("-DBURSAR_PRIVATE_LAYOUTS=OFF",), quick=tuple(SAME), pytest=("-k", NODE)),
}


def build(name: str) -> Path:
    """The folder with the package and its extension, built in this way."""
    folder = ROOT / "build" / name
    made = folder / f"cmake-{sys.implementation.cache_tag}"
    configure = ["cmake", "-S", ROOT, "-B", made, f"-DPython_EXECUTABLE={sys.executable}", *BUILDS[name].options]
    configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", made, "--parallel", "2"], check=True, stdout=subprocess.DEVNULL)
    path = folder / f"path-{sys.implementation.cache_tag}"
    shutil.rmtree(path, ignore_errors=True)
    for package in PACKAGES:
        left_out = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / package, path / Path(package).name, ignore=left_out)
    subprocess.run(["cmake", "--install", made, "--prefix", path], check=True, stdout=subprocess.DEVNULL)
    (path / "sitecustomize.py").write_text(UNHOOK, encoding="utf-8")
    return path


def library(name: str) -> str:
    """A runtime library of the compiler that CMake takes."""
    compiler = os.environ.get("CC", "cc")
    asked = [compiler, f"-print-file-name={name}"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    name, *given = sys.argv[1:] or [""]
    if name not in BUILDS:
        print(f"no such build: {name!r}; there are {', '.join(BUILDS)}", file=sys.stderr)
        return 2
    chosen = BUILDS[name]
    if given[:1] == ["--quick"]:
        given = [f"tests/{file}" for file in chosen.quick] + given[1:]
    elif not given:
        given = [f"tests/{folder}" for folder in IN_PROCESS]
    path = build(name)
    environment = chosen.environment(path)
    asked = [sys.executable, "-c", "import bursar._native as n; print(n.__file__)"]
    found = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True).stdout
    if str(path) not in found:
        raise SystemExit(f"the tests would not run on the build {name} but on {found.strip()}")
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *chosen.pytest, *given]
    return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
