"""Builds the extension and the C library with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the tests that
exercise them from Python.

    python scripts/test_sanitized.py                 every folder in which tasks run in the process of the tests
    python scripts/test_sanitized.py --quick         a few files: what `make test` affords
    python scripts/test_sanitized.py tests/unit -x   whatever pytest takes

What is checked and a copy of the package lie in build/sanitized, which PYTHONPATH puts before the install. The
install is editable, and its import hook would find the unchecked extension first: a `sitecustomize` of this folder's
own takes the hook off, in every child process as well.

The sanitizers' library must be loaded before anything else (LD_PRELOAD), and Python's own arenas would hide what is
done to freed records (PYTHONMALLOC=malloc). The memory meter refuses to work without these arenas: its tests stay out.
So do those that fork: the child may wait for ever for a lock of the sanitizer's allocator that another thread held at
that moment. Leaks are not looked for: an interpreter never frees all that it has, and
tests/native/kernel/test_lifetimes.py counts objects instead.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitized"
SANITIZERS = "address,undefined"
ALL = ["unit", "admission", "execution", "hosts", "evidence", "attack", "law", "model", "parity", "determinism"]
ALL += ["native/kernel"]
QUICK = ["unit/test_nursery.py", "unit/test_channel.py", "unit/test_task.py", "unit/test_scope.py", "unit/test_sync.py"]
METERED = "tests/unit/test_memory.py"
FORKING = "fork"  # in the names of tests
UNHOOK = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "_editable_skbc_bursar"]
"""


def build() -> Path:
    """The folder with the package and its checked extension."""
    made = BUILD / f"cmake-{sys.implementation.cache_tag}"
    configure = ["cmake", "-S", ROOT, "-B", made, f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [
        f"-DBURSAR_SANITIZE={SANITIZERS}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1",
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", made, "--parallel", "2"], check=True, stdout=subprocess.DEVNULL)
    path = BUILD / f"path-{sys.implementation.cache_tag}"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "bursar", path / "bursar", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    subprocess.run(["cmake", "--install", made, "--prefix", path], check=True, stdout=subprocess.DEVNULL)
    (path / "sitecustomize.py").write_text(UNHOOK, encoding="utf-8")
    return path


def library(name: str) -> str:
    """A runtime library of the compiler that CMake takes."""
    compiler = os.environ.get("CC", "cc")
    asked = [compiler, f"-print-file-name={name}"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def environment(path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(path),
        "PYTHONMALLOC": "malloc",
        "BURSAR_KERNEL": "native",
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:handle_segv=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }


def main() -> int:
    given = sys.argv[1:]
    if given[:1] == ["--quick"]:
        given = [f"tests/{name}" for name in QUICK] + given[1:]
    elif not given:
        given = [f"tests/{name}" for name in ALL]
    path = build()
    checked = [sys.executable, "-c", "import bursar._native as n; print('checked:', n.__file__)"]
    found = subprocess.run(checked, env=environment(path), check=True, capture_output=True, text=True).stdout
    if str(path) not in found:
        raise SystemExit(f"the tests would not run on the checked extension but on {found.strip()}")
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "--dist",
        "loadfile",
        "--timeout",
        "600",
        f"--ignore={METERED}",
        "-k",
        f"not {FORKING}",
        *given,
    ]
    return subprocess.run(tests, cwd=ROOT, env=environment(path), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
