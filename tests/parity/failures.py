"""Makes fixtures fail, with a wrong expectation or with a changed law in a copy of the code; pastes their commands."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from parity import artifacts, fixture
from support.time_limits import WAIT_S

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".*", "__pycache__", "artifacts", "build", "dist", "docs", "node_modules")
LIMIT = "LAW_CANCEL_STREAK_MAX UINT32_C"
PLANT_C = """
import sys
from importlib.util import spec_from_file_location

class Planted:
    def find_spec(name, path=None, target=None):
        return spec_from_file_location(name, {library!r}) if name == "bursar._native" else None

sys.meta_path.insert(0, Planted)
"""
PLANT_PYTHON = """
from support.law import dispatch
dispatch.cancel_limit = lambda draining: 8
"""
RUN = """
import sys
sys.path.insert(0, {tests!r})
{plant}
from parity import fixture
sys.exit(fixture.main([{id!r}]))
"""


def run(
    command: str | list[str], artifacts_in: Path, root: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=root,
        env={**os.environ, artifacts.VARIABLE: str(artifacts_in), **variables},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )


def paste(command: str, artifacts_in: Path, root: Path = ROOT) -> subprocess.CompletedProcess:
    """Paste a command into a shell, at the root of a checkout."""
    return run(command.replace(".venv/bin/python", sys.executable), artifacts_in, root)  # tests may run in another one


def doctored(id: str, directory: Path) -> Path:
    """A fixture that expects another fingerprint, and one key event less."""
    wrong = fixture.load(fixture.path_of(id))
    wrong["expected"]["decision_fingerprint"] = "0" * 16
    wrong["expected"]["key_events"].pop()
    path = directory / f"{id}.json"
    path.write_text(json.dumps(wrong), encoding="utf-8")
    return path


def run_planted(plant: str, kernel: str, id: str, artifacts_in: Path) -> subprocess.CompletedProcess:
    """One fixture in a process of its own, on a kernel with a changed law."""
    source = RUN.format(tests=str(ROOT / "tests"), plant=plant, id=id)
    return run([sys.executable, "-c", source], artifacts_in, BURSAR_KERNEL=kernel)


def planted_library(directory: Path) -> Path:
    """The extension, built from a copy of the C code with a cancel streak of at most 8."""
    shutil.copytree(ROOT / "native", directory / "native")
    limits = directory / "native" / "law" / "generated" / "limits.h"
    text = limits.read_text(encoding="utf-8")
    assert f"{LIMIT}(16)" in text
    limits.write_text(text.replace(f"{LIMIT}(16)", f"{LIMIT}(8)"), encoding="utf-8")
    library = directory / "_native.so"
    include = f"-I{sysconfig.get_paths()['include']}"
    sources = sorted(map(str, (directory / "native" / "python").rglob("*.c")))
    command = ["cc", "-O0", "-std=c11", "-fPIC", "-fvisibility=hidden", include, "-Inative", "-shared", *sources]
    subprocess.run([*command, "-o", library, "-lpthread"], cwd=directory, check=True)
    return library


def planted_checkout(directory: Path) -> Path:
    """A copy of this checkout in which law/decide.py allows a cancel streak of 8."""
    root = directory / "checkout"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))
    modules = Path("tests", "browser", "node_modules")
    (root / modules).symlink_to(ROOT / modules)
    law = root / "src" / "bursar" / "law" / "decide.py"
    text = law.read_text(encoding="utf-8")
    assert "CANCEL_STREAK_MAX: Final = 16" in text
    law.write_text(text.replace("CANCEL_STREAK_MAX: Final = 16", "CANCEL_STREAK_MAX: Final = 8"), encoding="utf-8")
    return root
