"""Runs the whole test suite, with slow tests, on every CPython from 3.11 on that this machine has. The version that
runs this script is left out: the other parts of `make test-all` test that version.

    python scripts/test_all_pythons.py               on the default kernel of each Python
    python scripts/test_all_pythons.py tests/law     also runs these tests, without slow ones, on the kernel in Python;
                                                     takes any arguments of pytest

The script looks for interpreters on PATH and among the versions of pyenv. Each distinct version (3.12, 3.13, 3.13t,
...) gets its own virtual environment in the checkout, `.venv-3.12` and so on. The suites run one after the other, each
on all processors. A table at the end shows the results, and any failure fails the script.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
NAME = re.compile(r"python3\.\d+t?(\.exe)?")
PROBE = """
import sys, sysconfig
if sys.implementation.name == "cpython":
    print(*sys.version_info[:3], "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
"""


def folders() -> list[Path]:
    """Where interpreters may lie: the folders of PATH, then those of pyenv's versions."""
    found = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    root = os.environ.get("PYENV_ROOT")
    if not root and shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
    if root:
        found += sorted(Path(root).glob("versions/*/bin"))
    return found


def probe(executable: Path) -> tuple[tuple[int, ...], str] | None:
    """Version and ABI flag of a CPython; None for what is none, or does not start (a shim of no version)."""
    try:
        answer = subprocess.run([executable, "-c", PROBE], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode or not answer.stdout.strip():
        return None
    major, minor, micro, *flag = answer.stdout.split()
    return (int(major), int(minor), int(micro)), "".join(flag)


def interpreters() -> dict[str, Path]:
    """The newest interpreter of each version, by name: {"3.11": ..., "3.13t": ...}."""
    newest: dict[tuple[int, int, str], tuple[tuple[int, ...], Path]] = {}
    for folder in folders():
        for executable in sorted(folder.glob("python3.*")):
            answer = probe(executable) if NAME.fullmatch(executable.name) else None
            if answer is None or answer[0] < OLDEST:
                continue
            version, flag = answer
            key = (version[0], version[1], flag)
            if key not in newest or newest[key][0] < version:
                newest[key] = (version, executable)
    return {f"{major}.{minor}{flag}": newest[major, minor, flag][1] for major, minor, flag in sorted(newest)}


def own_version() -> str:
    """The version of the interpreter that runs this script, by the same name."""
    flag = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"{sys.version_info.major}.{sys.version_info.minor}{flag}"


def suite_passes(name: str, executable: Path, on_python: list[str]) -> bool:
    """Install into the environment of that version and run every test there, and those on the kernel in Python."""
    print(f"\n=== Python {name} ===", flush=True)
    environment = ROOT / f".venv-{name}"
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--editable", ".[cli,test]"]
    test = [python, "-m", "pytest", "-n", "auto", "--dist", "loadfile", "-m"]
    commands: list[tuple[list[str | Path], dict[str, str]]] = [
        (install, {}),
        ([*test, "not browser"], {}),  # that is another Python
    ]
    if not python.exists():
        commands.insert(0, ([executable, "-m", "venv", environment], {}))
    if on_python:
        commands.append(([*test, "not browser and not slow", *on_python], {"BURSAR_KERNEL": "python"}))
    return all(subprocess.run(command, cwd=ROOT, env=os.environ | more).returncode == 0 for command, more in commands)


def main() -> int:
    found = interpreters()
    found.pop(own_version(), None)
    if not found:
        print("no other CPython from 3.11 on was found on PATH or in pyenv")
        return 0
    passed = {name: suite_passes(name, executable, sys.argv[1:]) for name, executable in found.items()}
    print()
    for name, ok in passed.items():
        print(f"Python {name:<6} {'passed' if ok else 'FAILED'}")
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
