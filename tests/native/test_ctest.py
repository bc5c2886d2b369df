"""The tests in C: native/ is configured, built with warnings as errors, and ctest runs what was built.

Here is what every change must pass, in the time that `make test` has: everything once, and under the sanitizers all but
what takes minutes there. scripts/test_native.py has the rest: the long forms, the other compiler, the other machine.
"""

from pathlib import Path

import pytest
from support.building import native_project, need_sanitizers, needed, plain_project, run

HERE = Path(__file__).parent
MINUTES = "runtime/test_load|runtime/test_nursery|runtime/test_scheduler"  # under ThreadSanitizer, on a busy machine


def said_by_ctest(folder: Path, leave_out: str = "^$") -> str:
    """What was built in this folder is run."""
    chosen = ("-LE", "long", "-E", leave_out)
    return run(needed("ctest"), "--test-dir", folder, "--output-on-failure", "--no-tests=error", *chosen, "-j", "2")


@pytest.mark.timeout(1800)
def test_everything_in_c():
    said = said_by_ctest(plain_project())
    names = {f"{file.parent.name}/{file.stem}" for file in HERE.glob("*/test_*.c") if file.parent.name != "meter"}
    assert {name.partition("/")[0] for name in names} == {"law", "fiber", "engine", "runtime"}
    assert not {name for name in names if name not in said}, "ctest does not know them"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["address", "thread"])
def test_everything_under_the_sanitizers(tmp_path, kind):
    compiler, sanitizers = needed("gcc"), {"address": "address,undefined", "thread": "thread"}[kind]
    need_sanitizers(compiler, tmp_path, sanitizers)
    options = (f"-DCMAKE_C_COMPILER={compiler}", f"-DBURSAR_SANITIZE={sanitizers}")
    said = said_by_ctest(native_project(f"{kind}-gcc", *options), MINUTES if kind == "thread" else "^$")
    assert "runtime/test_channel" in said
