"""Admission is laid out and not built: what only it could honour is refused by name, and nothing is left behind."""

import pytest

import bursar
from bursar import NotBuilt, Priority, nursery


async def child(*args):
    return args


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"priority": Priority.HIGH}, "priorities act at admission"),
        ({"priority": Priority.LOW}, "priorities act at admission"),
        ({"needs": {"ram": 5}}, "resources belong to admission"),
        ({"retry": 3}, "retries belong to admission"),
    ],
)
def test_its_keywords_are_refused_by_name(run, keywords, text):
    async def main():
        async with nursery() as n:
            with pytest.raises(NotBuilt, match=text):
                n.spawn(child, **keywords)
            assert n.tasks == []

    run(main)
    assert run.runtime.statistics().spawned == 1


def test_a_task_among_the_arguments_is_a_dependency_and_is_refused(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            with pytest.raises(NotBuilt, match="Await the task inside the new one"):
                n.spawn(child, 1, task)
            with pytest.raises(NotBuilt, match="dependencies belong to admission"):
                n.spawn(child, after=[task])

    run(main)
    assert run.runtime.statistics().spawned == 2


def test_the_normal_priority_may_be_named(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(child, 1, priority=Priority.NORMAL, after=[])
        return task.result

    assert run(main) == (1,)


def test_priorities_are_ordered():
    assert Priority.HIGH < Priority.NORMAL < Priority.LOW
    assert [p.name for p in bursar.Priority] == ["HIGH", "NORMAL", "LOW"]
