"""`bursar info`: what is installed, which kernel runs a program, and which flags a C program needs for the C library.

The native extension contains the native kernel. If the extension is missing, the command says what that means. If an
option asks for flags, the command prints only these, as pkg-config does: `cc program.c $(bursar info --cflags --libs)`.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
import sysconfig
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bursar import settings
from bursar.backend import kernel_in_use
from bursar.cli import refuse
from bursar.cli.library import ABSENT as NO_LIBRARY
from bursar.cli.library import library
from bursar.errors import BursarError
from bursar.law.profile import PROFILES

ABSENT = (
    "the native extension was not built, because the install found no working C compiler; Bursar is complete on its "
    "Python kernel, but slower; for the native kernel, install a C compiler and reinstall Bursar"
)

MEMORIES = (("ram", "ram_mb"), ("vram", "vram_mb"))


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    cflags: Annotated[
        bool, typer.Option("--cflags", help="Print only the flags to compile a C program with the C library.")
    ] = False,
    libs: Annotated[
        bool, typer.Option("--libs", help="Print only the flags to link a C program with the C library.")
    ] = False,
    static: Annotated[bool, typer.Option("--static", help="With --libs: link the library statically.")] = False,
    cmake_dir: Annotated[bool, typer.Option("--cmake-dir", help="Print only the folder for bursar_rt_DIR.")] = False,
    pkg_config_path: Annotated[
        bool, typer.Option("--pkg-config-path", help="Print only the folder for PKG_CONFIG_PATH.")
    ] = False,
) -> None:
    """Show the version, the kernel, the native extension, the C library, Python, the platform, settings and profiles.

    With one or more of --cflags, --libs, --cmake-dir and --pkg-config-path, print only these, on one line."""
    asked = {
        "cflags": cflags,
        "static_libs" if static else "libs": libs,
        "cmake_dir": cmake_dir,
        "pkg_config_path": pkg_config_path,
    }
    if static and not libs:
        refuse("--static changes what --libs prints; add --libs")
    if any(asked.values()):
        if as_json:
            refuse("--json prints everything, with the flags; remove the other options")
        print(flags([name for name, wanted in asked.items() if wanted]))
        return
    try:
        facts = gather()
    except BursarError as error:
        refuse(str(error))
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        Console(soft_wrap=True).print(as_table(facts))


def flags(names: list[str]) -> str:
    """These fields of the C library, quoted for a shell."""
    found = library()
    if found is None:
        refuse(NO_LIBRARY)
    values = [getattr(found, name) for name in names]
    return shlex.join(word for value in values for word in ([value] if isinstance(value, str) else value))


def gather() -> dict[str, Any]:
    """Everything that `bursar info` reports, ready for JSON."""
    return {
        "version": version("bursar"),
        "kernel": kernel_in_use(),
        "native": native_extension(),
        "c_library": c_library(),
        "python": {
            "implementation": platform.python_implementation(),
            "version": platform.python_version(),
            "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
            "executable": sys.executable,
        },
        "platform": platform.platform(),
        "settings": asdict(settings.read()),
        "profiles": {profile.name: profile.summary for profile in PROFILES.values()},
    }


def native_extension() -> dict[str, Any]:
    """Whether the extension is installed, whether it contains a kernel, and which compiler built it."""
    try:
        from bursar import _native
    except ImportError:
        return {"present": False, "kernel": False, "why_it_matters": ABSENT}
    return {"present": True, "kernel": _native.KERNEL, "build": _native.build_info()}


def c_library() -> dict[str, Any]:
    """Whether the C library is installed, and what a program needs to use it."""
    found = library()
    return {"present": False, "why": NO_LIBRARY} if found is None else {"present": True, **found._asdict()}


def as_table(facts: dict[str, Any]) -> Table:
    """The facts as a table for people."""
    table = Table.grid(padding=(0, 2))
    table.add_row("bursar", facts["version"])
    table.add_row("kernel", facts["kernel"])
    table.add_row("native", native_line(facts["native"]))
    table.add_row("C library", c_library_line(facts["c_library"]))
    python = facts["python"]
    threads = ", free-threaded" if python["free_threaded"] else ""
    table.add_row("python", f"{python['implementation']} {python['version']}{threads}")
    table.add_row("", python["executable"])
    table.add_row("platform", facts["platform"])
    for number, line in enumerate(settings_lines(facts["settings"])):
        table.add_row("" if number else "scheduler", line)
    for number, (name, meaning) in enumerate(facts["profiles"].items()):
        table.add_row("" if number else "profiles", f"{name}: {meaning}")
    return table


def settings_lines(found: dict[str, Any]) -> list[str]:
    """The default gate for graphs of tasks, and its limits."""
    limits = [f"{name} {found[key]:,} MiB" if found[key] else f"{name} unlimited" for name, key in MEMORIES]
    return [
        f"{found['scheduler']}, {found['workers']} workers",
        f"cpu {found['cpu_slots']}, {', '.join(limits)}",
        f"a waiting task gains {found['aging_boost']} of priority every {found['aging_ms']:,} ms; "
        f"a pause waits {found['pause_ms']:,} ms for a checkpoint",
    ]


def native_line(native: dict[str, Any]) -> str:
    if not native["present"]:
        return f"absent: {native['why_it_matters']}"
    build = native["build"]
    kernel = "with the native kernel" if native["kernel"] else "the native kernel is not in this build"
    return (
        f"present: {build['compiler']} {build['compiler_version']}, {build['c_standard']}, "
        f"for Python {build['python']}; {kernel}"
    )


def c_library_line(found: dict[str, Any]) -> str:
    if not found["present"]:
        return f"absent: {found['why']}"
    return f"{found['version']}; cc program.c $(bursar info --cflags --libs)"
