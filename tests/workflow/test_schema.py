"""Each check accepts right values. For a wrong one it says where, what is expected and what was probably meant."""

import pytest

from bursar import WorkflowError
from bursar.workflow import schema

KEYS = {"name": schema.text, "times": schema.whole(1), "tags": schema.list_of(schema.text, "words")}


def test_a_table_is_checked_key_by_key():
    assert schema.table({"name": "x", "times": 3, "tags": ["a"]}, "here", KEYS) == {
        "name": "x",
        "times": 3,
        "tags": ["a"],
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"nam": "x"}, "here: there is no key 'nam'; did you mean 'name'?"),
        ({"zzz": 1}, "here: there is no key 'zzz'; the keys are name, tags, times"),
        ({"name": ""}, "here, name: must be a non-empty string, not ''"),
        ({"name": 3}, "here, name: must be a non-empty string, not 3"),
        ({"times": 0}, "here, times: must be a whole number, 1 or more, not 0"),
        ({"times": True}, "here, times: must be a whole number, 1 or more, not True"),
        ({"tags": "a"}, "here, tags: must be a list of words, not 'a'"),
        ({"tags": ["a", 2]}, "here, tags, item 2: must be a non-empty string, not 2"),
        ([], "here: must be a table, not []"),
    ],
)
def test_a_mistake_is_named(value, message):
    with pytest.raises(WorkflowError) as caught:
        schema.table(value, "here", KEYS)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "seconds"), [(2, 2.0), (0.5, 0.5), ("250ms", 0.25), ("90s", 90.0), ("1.5 m", 90.0), (" 2h", 7200.0)]
)
def test_seconds(value, seconds):
    assert schema.seconds(value, "here") == pytest.approx(seconds)


@pytest.mark.parametrize("value", [-1, "2 days", "", "s", True, float("nan"), float("inf"), None])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(WorkflowError, match=r"here: must be a (time|number)"):
        schema.seconds(value, "here")


def test_one_of():
    check = schema.one_of("stream", "capture")
    assert check("stream", "here") == "stream"
    with pytest.raises(WorkflowError, match="one of stream, capture, not 'captur'; did you mean 'capture'"):
        check("captur", "here")
    with pytest.raises(WorkflowError, match=r"not \['stream'\]$"):
        check(["stream"], "here")


def test_table_of():
    assert schema.table_of(schema.number(0, 10))({"a": 1}, "here") == {"a": 1.0}
    with pytest.raises(WorkflowError, match="here, b: must be a number"):
        schema.table_of(schema.number(0, 10))({"a": 1, "b": "x"}, "here")


def test_a_suggestion_does_not_depend_on_capitals():
    assert schema.meant("TIMEOUT", ["timeout", "retry"]) == "; did you mean 'timeout'?"
    assert schema.meant("fetch", ["Fetch"]) == "; did you mean 'Fetch'?"
