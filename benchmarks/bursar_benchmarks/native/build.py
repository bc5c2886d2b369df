"""Builds the programs of all peers that this machine has, and gives the reason for each peer that is missing.

Everything goes to one folder, by default `build/bench-native`. CMake builds Bursar's library there as it is shipped
(Release, shared), and the programs are linked with it as any program is. Two programs measure parts below the C
interface, and are linked with the static library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bursar_benchmarks.native.cases import PEERS

HERE: Final = Path(__file__).resolve().parent
NATIVE: Final = HERE.parents[2] / "native"
SUFFIXES: Final[Mapping[str, str]] = {"bursar": "c", "plain": "c", "go": "go", "tbb": "cpp", "boost": "cpp"}
INSIDE: Final = frozenset({"switch", "wake"})  # of Bursar's: they measure parts that the interface does not show
C_FLAGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", f"-I{HERE}")
CXX_FLAGS: Final = ("-std=c++17", "-O2", "-Wall", "-Wextra", f"-I{HERE}")
HEADERS: Final[Mapping[str, str]] = {"tbb": "oneapi/tbb/task_group.h", "boost": "boost/fiber/all.hpp"}
LIBRARIES: Final[Mapping[str, Sequence[str]]] = {
    "tbb": ("-ltbb",),
    "boost": ("-lboost_fiber", "-lboost_context", "-lpthread"),
}


@dataclass(slots=True)
class Built:
    """The programs by (peer, workload), and the missing peers with the reason."""

    programs: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])
    missing: dict[str, str] = field(default_factory=dict[str, str])


class BuildError(Exception):
    """A compiler refused one of our programs. The message is the output of the compiler."""


def run(command: Sequence[str | Path], **environment: str) -> None:
    """Run a compiler. Raises BuildError with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise BuildError(f"{' '.join(map(str, command))}\n{done.stderr}")


def source(peer: str, workload: str) -> Path:
    """Where the program is, if there is one."""
    return HERE / peer / f"{workload}.{SUFFIXES[peer]}"


def lacking(peer: str) -> str | None:
    """What this peer needs and the machine lacks; None if nothing is missing."""
    if peer == "go":
        return None if shutil.which("go") else "no go command"
    compiler = "c++" if SUFFIXES[peer] == "cpp" else "cc"
    if not shutil.which(compiler):
        return f"no {compiler} command"
    if peer == "bursar" and not shutil.which("cmake"):
        return "no cmake command"
    if peer in HEADERS:
        probe = ("c++", "-std=c++17", "-fsyntax-only", "-include", HEADERS[peer], "-x", "c++", os.devnull)
        if subprocess.run(probe, capture_output=True).returncode != 0:
            return f"no {HEADERS[peer]}"
    return None


def library(folder: Path) -> Path:
    """Build Bursar's library in `folder`. Returns where it is."""
    run(("cmake", "-S", NATIVE, "-B", folder / "native", "-DCMAKE_BUILD_TYPE=Release"))
    targets = ("--target", "bursar_rt_shared", "bursar_rt_static")
    run(("cmake", "--build", folder / "native", "--parallel", "2", *targets))
    return folder / "native" / "abi"


def compile_one(peer: str, workload: str, program: Path, rt: Path | None) -> None:
    """Compile one program. `rt` is where Bursar's library is."""
    file = source(peer, workload)
    if peer == "go":
        cache = str(program.parent.parent / "gocache")
        run(("go", "build", "-o", program, file, HERE / "go" / "measure.go"), GOCACHE=cache, GO111MODULE="auto")
    elif SUFFIXES[peer] == "cpp":
        run(("c++", *CXX_FLAGS, "-o", program, file, *LIBRARIES[peer]))
    elif rt is None:
        run(("cc", *C_FLAGS, "-o", program, file))
    else:
        linked = (str(rt / "libbursar_rt.a"),) if workload in INSIDE else (f"-L{rt}", "-lbursar_rt", f"-Wl,-rpath,{rt}")
        run(("cc", *C_FLAGS, f"-I{NATIVE}", f"-I{NATIVE / 'include'}", "-o", program, file, *linked, "-lpthread"))


def build(folder: Path, workloads: Iterable[str], peers: Iterable[str] = PEERS) -> Built:
    """Build the programs of `workloads` for those of `peers` that are installed."""
    built = Built()
    wanted = list(dict.fromkeys(workloads))
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for peer in peers:
        reason = lacking(peer)
        if reason is not None:
            remedy = PEERS[peer]
            built.missing[peer] = reason + (f"; {remedy}" if remedy else "")
            continue
        rt = library(folder) if peer == "bursar" else None
        for workload in wanted:
            if source(peer, workload).exists():
                program = folder / "bin" / f"{peer}-{workload}"
                compile_one(peer, workload, program, rt)
                built.programs[peer, workload] = program
    return built
