"""`${…}`: which strings are references, what they stand for, and which results a journal keeps."""

import pytest

from bursar import WorkflowError
from bursar.workflow.references import RESULT_MAX, Ref, Template, as_text, fill, keep, parse, references


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${a}", Ref("a")),
        ("${a-1.title}", Ref("a-1", ("title",))),
        ("${a.0.x y}", Ref("a", ("0", "x y"))),
        ("x ${a} y", Template(("x ", Ref("a"), " y"))),
        ("${a}${b}", Template((Ref("a"), Ref("b")))),
        ("$${a}", "${a}"),
        ("$${${a}", Template(("${", Ref("a")))),
        ("$a {b} $", "$a {b} $"),
    ],
)
def test_parse(text, parsed):
    assert parse(text) == parsed


@pytest.mark.parametrize("text", ["${}", "${a b}", "x ${-a}", "${a..b}", "${a.}"])
def test_what_is_no_reference_is_refused(text):
    with pytest.raises(ValueError, match="is not a reference to a task"):
        parse(text)


def test_printed_references_can_be_parsed_again():
    for text in ("${a.b}", "x ${a} $${y} ${b.0}"):
        assert parse(str(parse(text))) == parse(text)


def test_references_are_found_however_deep():
    value = {"x": [Ref("a"), (Template(("p", Ref("b"))), 1)], "y": "${c}"}
    assert list(references(value)) == ["a", "b"]


def test_fill():
    results = {"a": {"n": [10, 20]}, "b": "text"}
    value = {"whole": Ref("a"), "part": (Ref("a", ("n", "1")), [Template(("<", Ref("b"), "|", Ref("a"), ">"))])}
    assert fill(value, results) == {"whole": {"n": [10, 20]}, "part": (20, ['<text|{"n": [10, 20]}>'])}
    assert fill([1, None, "x"], {}) == [1, None, "x"]


@pytest.mark.parametrize("path", [("x",), ("n", "2"), ("n", "x"), ("n", "0", "y")])
def test_a_part_that_is_not_there_is_named(path):
    with pytest.raises(WorkflowError, match=rf"there is no '{path[-1]}' in the result of task 'a'"):
        fill(Ref("a", path), {"a": {"n": [1, 2]}})


def test_as_text():
    assert as_text("é") == "é"
    assert as_text([1, None, "é"]) == '[1, null, "é"]'


def test_what_json_holds_is_passed_on_as_json_holds_it():
    kept = keep((1, {2: (3,)}))
    assert kept.value == [1, {"2": [3]}]
    assert kept.json == '[1, {"2": [3]}]'
    assert keep("\udcff").value == "\udcff"


def test_what_json_cannot_hold_is_passed_on_as_it_is():
    value = {1, 2}
    kept = keep(value)
    assert kept.value is value
    assert kept.json is None
    assert "it is a set that JSON cannot hold" in kept.why_not


def test_a_loop_is_not_kept():
    loop = []
    loop.append(loop)
    assert keep(loop).json is None


def test_too_much_is_passed_on_and_not_kept():
    assert keep("x" * (RESULT_MAX - 2)).json is not None
    kept = keep("x" * (RESULT_MAX - 1))
    assert kept.json is None
    assert len(kept.value) == RESULT_MAX - 1
    assert "are kept at most" in kept.why_not
