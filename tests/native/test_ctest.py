"""The tests in C: native/ is configured, built with warnings as errors, and ctest runs what was built.

Here is what every change must pass, in the time that `make test` has: everything once, and once under AddressSanitizer.
scripts/test_native.py has the rest: ThreadSanitizer, the long forms, the other compiler, the other machine.
"""

from pathlib import Path

import pytest
from support.building import native_project, need_sanitizers, needed, plain_project, run

HERE = Path(__file__).parent


def said_by_ctest(folder: Path) -> str:
    """What was built in this folder is run."""
    options = ("--output-on-failure", "--no-tests=error", "-LE", "long", "-j", "2")
    return run(needed("ctest"), "--test-dir", folder, *options)


@pytest.mark.timeout(1800)
def test_everything_in_c():
    said = said_by_ctest(plain_project())
    names = {f"{file.parent.name}/{file.stem}" for file in HERE.glob("*/test_*.c") if file.parent.name != "meter"}
    assert {name.partition("/")[0] for name in names} == {"law", "fiber", "engine", "runtime"}
    assert not {name for name in names if name not in said}, "ctest does not know them"


@pytest.mark.timeout(1800)
def test_everything_under_a_sanitizer(tmp_path):
    compiler, sanitizers = needed("gcc"), "address,undefined"
    need_sanitizers(compiler, tmp_path, sanitizers)
    options = (f"-DCMAKE_C_COMPILER={compiler}", f"-DBURSAR_SANITIZE={sanitizers}")
    assert "runtime/test_channel" in said_by_ctest(native_project("address-gcc", *options))
