"""The Python names that C uses: names_from_python.h is checked when Python hands them over (SEAM-1)."""

import re
from pathlib import Path

import pytest
from support.extension import fresh_extension
from support.law import state

import bursar

_native = pytest.importorskip("bursar._native", reason="this build has no extension")
LIST = Path(__file__).parents[3] / "native" / "python" / "module" / "names_from_python.h"


def listed() -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", LIST.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"\bX\((\w+)(?:, \w+, \w+)?\)(?= *(?:\\|$))", text, re.MULTILINE)


def test_every_name_in_the_list_is_exposed_by_a_module_of_bursar():
    bursar.Runtime(clock="virtual")
    assert _native.unexposed() == []


def test_a_fresh_copy_lacks_every_name_of_the_list():
    names = fresh_extension().unexposed()
    assert len(names) == len(set(names)) > 50
    assert set(names) == set(listed()) - {"name"}


def test_a_name_that_is_not_in_the_list_is_refused():
    with pytest.raises(SystemError, match=r"no use for brieve: see native/python/module/names_from_python\.h"):
        fresh_extension().expose({"brieve": str})


def test_a_name_of_the_law_that_is_missing_is_an_error():
    with pytest.raises(SystemError, match="needs Outcome, which no module has exposed"):
        fresh_extension().adopt({"State": state.State})


def test_an_enumeration_of_another_size_is_refused():
    with pytest.raises(SystemError, match="do not agree on State"):
        fresh_extension().expose({"State": list(state.State)[1:]})


def test_an_argument_that_is_no_dict_of_names_is_refused():
    with pytest.raises(TypeError):
        fresh_extension().expose([("State", state.State)])
    with pytest.raises(TypeError):
        fresh_extension().expose({1: state.State})


def test_calling_a_name_that_was_not_exposed_names_it():
    module = fresh_extension()
    with pytest.raises(SystemError, match="needs nursery, which no module has exposed"):
        module.nursery(name="early")
