"""The public names: what `import bursar` loads, and what it does not."""

import subprocess
import sys

import pytest
from support.time_limits import WAIT_S

import bursar

OPTIONAL = ("evidence", "trace", "asyncio", "browser", "workflow", "cli")


def loaded_by(program: str) -> set[str]:
    """The modules of Bursar that a new process has after the program."""
    program += "\nimport sys\nprint(*(name for name in sys.modules if name.startswith('bursar')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=True)
    return set(done.stdout.split())


def test_the_import_loads_no_optional_package():
    found = loaded_by("import bursar")
    assert "bursar.runtime" in found
    assert [name for name in OPTIONAL if f"bursar.{name}" in found] == []


def test_access_to_a_public_name_can_be_specialized():
    """CPython specializes no attribute of a module that has a `__getattr__`: every `bursar.sleep` would cost more."""
    assert not hasattr(bursar, "__getattr__")


def test_all_names_are_listed_and_lead_somewhere():
    assert set(bursar.__all__) <= set(dir(bursar))
    assert all(getattr(bursar, name) is not None for name in bursar.__all__)


def test_an_unknown_name_is_refused_like_any_other():
    with pytest.raises(AttributeError, match="module 'bursar' has no attribute 'nosuch'"):
        _ = bursar.nosuch
