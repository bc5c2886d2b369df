"""Which parameter is annotated `Checkpoint`: in every place, in every spelling, of everything that can be called."""

import functools
import gc
import typing
import weakref

import pytest
from threads import postponed

import bursar
from bursar import Checkpoint
from bursar.threads import signature
from bursar.threads.signature import Place, arguments, place_of


def first(checkpoint: Checkpoint, a, b):
    return checkpoint, a, b


def middle(a, checkpoint: Checkpoint, b):
    return checkpoint, a, b


def last(a, b, checkpoint: Checkpoint):
    return checkpoint, a, b


def keyword(a, b, *, checkpoint: Checkpoint):
    return checkpoint, a, b


def variadic(a, *rest, checkpoint: Checkpoint):
    return checkpoint, a, *rest


def positional(a, checkpoint: Checkpoint, /, b):
    return checkpoint, a, b


def optional(a, b, checkpoint: Checkpoint | None = None):
    return checkpoint, a, b


def old_optional(a, b, checkpoint: typing.Optional[Checkpoint] = None):  # noqa: UP045 (as people write it)
    return checkpoint, a, b


def text(a, b, checkpoint: "Checkpoint"):
    return checkpoint, a, b


def dotted(a, b, checkpoint: "bursar.Checkpoint"):
    return checkpoint, a, b


def unresolved(a, b, checkpoint: "typing_only.Checkpoint"):  # noqa: F821 (that is the point)
    return checkpoint, a, b


def others_unresolved(a: "Nowhere", b, checkpoint: "Checkpoint | None"):  # noqa: F821 (that is the point)
    return checkpoint, a, b


class Thing:
    def method(self, a, b, checkpoint: Checkpoint):
        return checkpoint, a, b

    @classmethod
    def of_the_class(cls, a, b, checkpoint: Checkpoint):
        return checkpoint, a, b

    @staticmethod
    def static(a, b, checkpoint: Checkpoint):
        return checkpoint, a, b

    def __call__(self, a, checkpoint: Checkpoint, b):
        return checkpoint, a, b


@functools.wraps(last)
def wrapper(*args, **keywords):
    return last(*args, **keywords)


TAKERS = {
    "first": first,
    "middle": middle,
    "last": last,
    "keyword": keyword,
    "variadic": variadic,
    "positional": positional,
    "optional": optional,
    "old_optional": old_optional,
    "text": text,
    "dotted": dotted,
    "unresolved": unresolved,
    "others_unresolved": others_unresolved,
    "postponed": postponed.last,
    "postponed_optional": postponed.optional,
    "for_type_checkers_only": postponed.for_type_checkers_only,
    "under_another_name": postponed.under_another_name,
    "method": Thing().method,
    "of_the_class": Thing.of_the_class,
    "static": Thing.static,
    "callable": Thing(),
    "wrapper": wrapper,
    "partial": functools.partial(last),
    "partial_of_a_method": functools.partial(Thing().method),
    "nested_partial": functools.partial(functools.partial(keyword)),
    "postponed_callable": postponed.Thing(),
}


@pytest.mark.parametrize("name", TAKERS)
def test_it_is_found_and_gets_there(go, name):
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(TAKERS[name], 1, 2)
        return task.result

    checkpoint, *others = go(main)
    assert isinstance(checkpoint, Checkpoint)
    assert others == [1, 2]


def test_a_partial_that_has_some_of_the_arguments():
    args, keywords = arguments(place_of(functools.partial(middle, 1)), (2,), "it")
    assert functools.partial(middle, 1)(*args, **keywords) == ("it", 1, 2)
    args, keywords = arguments(place_of(functools.partial(last, b=2)), (1,), "it")
    assert functools.partial(last, b=2)(*args, **keywords) == ("it", 1, 2)


def test_a_checkpoint_that_is_given_already_is_left_alone():
    assert place_of(functools.partial(last, checkpoint="mine")) is None


def test_arguments_before_it_may_be_left_out():
    def defaults(a=1, checkpoint: Checkpoint | None = None, b=2):
        return checkpoint, a, b

    args, keywords = arguments(place_of(defaults), (), "it")
    assert defaults(*args, **keywords) == ("it", 1, 2)


def plain(a, b: int, c: "str" = "", *d: Checkpoint, **e: Checkpoint) -> Checkpoint: ...


@pytest.mark.parametrize(
    "fn", [plain, lambda x: x, len, int, print, functools.partial(plain, 1), "".join, Exception, postponed.plain]
)
def test_where_there_is_none(fn):
    assert place_of(fn) is None


def test_what_lies_about_its_signature():
    class Liar:
        @property
        def __signature__(self):
            raise RuntimeError("no")

        def __call__(self):
            pass

    assert place_of(Liar()) is None


def test_inspect_is_asked_once_for_a_function(monkeypatch):
    asked = []
    look = signature._look
    monkeypatch.setattr(signature, "_look", lambda fn: asked.append(fn) or look(fn))

    def fn(x: int, checkpoint: Checkpoint): ...

    assert [place_of(fn) for _ in range(3)] == [Place(1, "checkpoint")] * 3
    assert len(asked) == 1


def test_functions_are_not_kept_alive():
    def fn(x: int): ...

    place_of(fn)
    gone = weakref.ref(fn)
    del fn
    gc.collect()
    assert gone() is None
