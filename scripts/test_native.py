"""Builds the native code in every way that this machine can, and runs its tests in C.

    python scripts/test_native.py                    all of these, one after the other
    python scripts/test_native.py long thread-gcc    some of them

    long                       the long forms: a million parked tasks, ten million spawned ones, and the rest of the
                               tests with the label `long`, a minute of mixed stress among them; 6 GB of memory
    extension-gcc,             the extension, for the Python that runs this; a warning is an error, and no test is run
    extension-clang
    plain-clang                what `make test` does with gcc
    no-fast-paths              every operation of the engine takes its slow path (BURSAR_FAST_PATHS=OFF)
    address-gcc, address-clang AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
    thread-gcc, thread-clang   ThreadSanitizer
    aarch64                    for the other machine, under qemu's user emulation: scripts/test_aarch64.sh

A way whose tools are not installed is skipped with a message. Each way has its own folder below build/native, which
`make test` uses as well. A table at the end shows the results, and any failure fails the script.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "native"
SKIPPED = 77  # what test_aarch64.sh ends with
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # cmake comes with the test tools


def ended(*command: object) -> int:
    """The exit code of a command."""
    print("+", *command, flush=True)
    words = [str(word) for word in command]
    return subprocess.run(words, env=os.environ | {"PATH": TOOLS}, check=False).returncode


def has_sanitizers(compiler: str, sanitizers: str) -> bool:
    """They come in packages of their own."""
    command = [compiler, f"-fsanitize={sanitizers}", "-x", "c", "-", "-o", os.devnull]
    return subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True).returncode == 0


def built_and_run(name: str, compiler: str, *options: str, chosen: str = "-LE") -> str:
    """Build in this way, run the tests without the label `long` (or, by -L, those with it), and say how it went."""
    for program in ("cmake", "ctest", compiler):
        if shutil.which(program, path=TOOLS) is None:
            return f"skipped: needs {program}"
    folder = BUILD / name
    configure = ["cmake", "-S", ROOT / "native", "-B", folder, "-DBURSAR_TESTS=ON", f"-DCMAKE_C_COMPILER={compiler}"]
    test = ["ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "-j", "2"]
    steps = [[*configure, *options], ["cmake", "--build", folder, "--parallel", "2"], [*test, chosen, "long"]]
    return "passed" if all(ended(*step) == 0 for step in steps) else "FAILED"


def extension(compiler: str) -> str:
    """Build the extension as an install would, but with this compiler, and let no warning pass."""
    for program in ("cmake", compiler):
        if shutil.which(program, path=TOOLS) is None:
            return f"skipped: needs {program}"
    folder = BUILD / f"extension-{compiler}"
    choices = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_C_FLAGS=-Werror"]
    steps = [
        ["cmake", "-S", ROOT, "-B", folder, *choices],
        ["cmake", "--build", folder, "--target", "_native", "--parallel", "2"],
    ]
    return "passed" if all(ended(*step) == 0 for step in steps) else "FAILED"


def sanitized(kind: str, compiler: str) -> str:
    sanitizers = SANITIZERS[kind]
    if shutil.which(compiler) and not has_sanitizers(compiler, sanitizers):
        return f"skipped: needs the sanitizers {sanitizers} of {compiler}"
    return built_and_run(f"{kind}-{compiler}", compiler, f"-DBURSAR_SANITIZE={sanitizers}")


def emulated() -> str:
    done = ended(ROOT / "scripts" / "test_aarch64.sh", ROOT / "native", BUILD / "aarch64")
    return {0: "passed", SKIPPED: "skipped: needs a cross compiler, qemu and cmake; see above"}.get(done, "FAILED")


WAYS = {
    "long": lambda: built_and_run("plain", "cc", chosen="-L"),
    "extension-gcc": lambda: extension("gcc"),
    "extension-clang": lambda: extension("clang"),
    "plain-clang": lambda: built_and_run("plain-clang", "clang"),
    "no-fast-paths": lambda: built_and_run("no-fast-paths", "cc", "-DBURSAR_FAST_PATHS=OFF"),
    "address-gcc": lambda: sanitized("address", "gcc"),
    "address-clang": lambda: sanitized("address", "clang"),
    "thread-gcc": lambda: sanitized("thread", "gcc"),
    "thread-clang": lambda: sanitized("thread", "clang"),
    "aarch64": emulated,
}


def main() -> int:
    chosen = sys.argv[1:] or list(WAYS)
    unknown = [name for name in chosen if name not in WAYS]
    if unknown:
        print(f"no such way: {', '.join(unknown)}; there are {', '.join(WAYS)}", file=sys.stderr)
        return 2
    went: dict[str, str] = {}
    for name in chosen:
        print(f"\n=== {name} ===", flush=True)
        went[name] = WAYS[name]()
    print()
    for name, how in went.items():
        print(f"{name:<15} {how}")
    return int("FAILED" in went.values())


if __name__ == "__main__":
    sys.exit(main())
