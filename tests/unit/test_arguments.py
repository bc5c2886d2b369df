"""Wrong arguments: each is refused with its name, what was given and what is expected."""

import math

import pytest

import bursar

WRONG = ["", -1, math.nan, math.inf, 10**30, "\udcff", object(), bursar.CapIO, b"x"]  # None is the default of most
KEYWORDS = ["budget", "profile", "workers", "clock", "capabilities", "steal", "cleanup", "admission"]


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_a_wrong_keyword_of_a_runtime(keyword, value):
    if keyword == "capabilities" and value == "":
        return  # an empty list
    with pytest.raises((TypeError, ValueError)) as caught:
        bursar.Runtime(**{keyword: value})
    assert str(caught.value).startswith(keyword)
    assert "must be" in str(caught.value) or "is not" in str(caught.value)


def test_a_class_instead_of_a_capability():
    with pytest.raises(TypeError, match=r"capabilities: <class .*CapIO'> is not a capability such as CapIO\(\)"):
        bursar.Runtime(capabilities=[bursar.CapIO])


@pytest.mark.parametrize(
    ("keyword", "value", "meant"),
    [("profile", "servise", "service"), ("clock", "virtaul", "virtual"), ("steal", "randon", "random")],
)
def test_a_misspelled_choice_gets_a_suggestion(keyword, value, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        bursar.Runtime(**{keyword: value})
