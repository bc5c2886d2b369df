"""`bursar info`: what is installed here, which kernel runs a program, and what a C program needs to use the C library.

The native extension holds the native kernel; where it is absent, what that means is said in words. Asked for flags, the
command prints these and nothing else, as pkg-config does: `cc program.c $(bursar info --cflags --libs)`.
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
    "the native extension was not built, because the install found no working C compiler; Bursar runs "
    "completely on its Python kernel, but the faster native kernel can never be chosen in this install; "
    "install a C compiler and reinstall Bursar to have it"
)

MEMORIES = (("ram", "ram_mb"), ("vram", "vram_mb"))


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    cflags: Annotated[bool, typer.Option("--cflags", help="Only what compiles a program with the C library.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="Only what links a program with the C library.")] = False,
    static: Annotated[bool, typer.Option("--static", help="With --libs: the library becomes a part of it.")] = False,
    cmake_dir: Annotated[bool, typer.Option("--cmake-dir", help="Only the folder for bursar_rt_DIR.")] = False,
    pkg_config_path: Annotated[
        bool, typer.Option("--pkg-config-path", help="Only the folder for PKG_CONFIG_PATH.")
    ] = False,
) -> None:
    """Show the version, the kernel, the native extension, the C library, Python, the platform, settings and profiles.

    Or, with one or more of --cflags, --libs, --cmake-dir and --pkg-config-path, only these, on one line."""
    asked = {
        "cflags": cflags,
        "static_libs" if static else "libs": libs,
        "cmake_dir": cmake_dir,
        "pkg_config_path": pkg_config_path,
    }
    if static and not libs:
        refuse("--static says how --libs is meant; add --libs")
    if any(asked.values()):
        if as_json:
            refuse("--json prints everything that is known, the flags too; leave out the other options")
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
    """These fields of the C library's description, as a shell reads them."""
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
    """Whether the extension is here, whether it holds a kernel, and what built it."""
    try:
        from bursar import _native
    except ImportError:
        return {"present": False, "kernel": False, "why_it_matters": ABSENT}
    return {"present": True, "kernel": _native.KERNEL, "build": _native.build_info()}


def c_library() -> dict[str, Any]:
    """Whether the C library is here, and what a program needs to use it."""
    found = library()
    return {"present": False, "why": NO_LIBRARY} if found is None else {"present": True, **found._asdict()}


def as_table(facts: dict[str, Any]) -> Table:
    """The facts for a human reader: one line each."""
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
    """What runs a graph of work, and within which limits, unless the program says otherwise."""
    limits = [f"{name} {found[key]:,} MiB" if found[key] else f"{name} without limit" for name, key in MEMORIES]
    return [
        f"{found['scheduler']}, {found['workers']} workers",
        f"cpu {found['cpu_slots']}, {', '.join(limits)}",
        f"priority +{found['aging_boost']} every {found['aging_ms']:,} ms of waiting; "
        f"{found['pause_ms']:,} ms to a checkpoint",
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
