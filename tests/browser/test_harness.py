"""The harness: an error inside Pyodide fails the test outside, and nothing is skipped where that is not allowed."""

import zipfile

import pytest
from browser.harness import REQUIRE, ROOT, PythonFailed, cases, need


def test_a_value_comes_back_as_it_was(node):
    assert node.run_python("[1, 'zwei', None, {'x': 1.5}]") == [1, "zwei", None, {"x": 1.5}]


def test_an_error_inside_is_an_error_outside(node):
    with pytest.raises(PythonFailed, match="ZeroDivisionError"):
        node.run_python("1 / 0")
    assert node.run_python("1") == 1, "and the interpreter goes on"


def test_every_source_has_a_namespace_of_its_own(node):
    node.run_python("x = 1")
    with pytest.raises(PythonFailed, match="NameError"):
        node.run_python("x")


def test_what_is_missing_is_skipped_or_fails_as_asked(monkeypatch):
    monkeypatch.delenv(REQUIRE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is missing"):
        need("no-such-program")
    monkeypatch.setenv(REQUIRE, "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program is missing"):
        need("no-such-program")
    need("python3")


def test_the_wheel_is_pure_and_whole(kit):
    assert kit.wheel.name.endswith("-py3-none-any.whl")
    named = zipfile.ZipFile(kit.wheel).namelist()
    inside = {name for name in named if name.endswith(".py") and name.startswith("bursar/")}
    source = ROOT / "src"
    assert inside == {str(file.relative_to(source)) for file in source.glob("bursar/**/*.py")}
    assert not [name for name in named if name.endswith((".so", ".pyd"))]
    assert {name.partition("/")[0] for name in named if name.endswith(".py")} == {
        "bursar",
        "bursar_benchmarks",  # what `bursar bench` runs
        "bursar_demo",  # and `bursar demo`
    }


def test_the_tests_inside_are_found_without_running_them():
    found = cases("host")
    assert len(found) > 15
    assert all(case.startswith("host.test_") for case in found)
