"""`bursar info`: what is installed here and which kernel runs a program.

The native extension holds the native kernel; where it is absent, what that means is said in words.
"""

from __future__ import annotations

import json
import platform
import sys
import sysconfig
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bursar import settings
from bursar.cli import refuse
from bursar.errors import BursarError
from bursar.kernel import kernel_in_use
from bursar.profile import PROFILES

ABSENT = (
    "the native extension was not built, because the install found no working C compiler; Bursar runs "
    "completely on its Python kernel, but the faster native kernel can never be chosen in this install; "
    "install a C compiler and reinstall Bursar to have it"
)

MEMORIES = (("ram", "ram_mb"), ("vram", "vram_mb"))


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the version, the kernel in use, the native extension, Python, the platform, settings and profiles."""
    try:
        facts = gather()
    except BursarError as error:
        refuse(str(error))
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        Console(soft_wrap=True).print(as_table(facts))


def gather() -> dict[str, Any]:
    """Everything that `bursar info` reports, ready for JSON."""
    return {
        "version": version("bursar"),
        "kernel": kernel_in_use(),
        "native": native_extension(),
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


def as_table(facts: dict[str, Any]) -> Table:
    """The facts for a human reader: one line each."""
    table = Table.grid(padding=(0, 2))
    table.add_row("bursar", facts["version"])
    table.add_row("kernel", facts["kernel"])
    table.add_row("native", native_line(facts["native"]))
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
