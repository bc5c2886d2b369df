"""Order, cycles, descendants and the critical path of a graph, compared with simple definitions."""

import itertools
import random

import pytest

from bursar.workflow.graph import critical_path, cycle, descendants, in_order, successors

DIAMOND = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}


def random_graph(rng: random.Random, n: int) -> dict[str, list[str]]:
    """A graph without cycles. The order of the mapping is independent of the dependencies."""
    names = [f"t{i}" for i in range(n)]
    edges = {name: rng.sample(names[:i], rng.randrange(min(i, 3) + 1)) for i, name in enumerate(names)}
    shuffled = list(edges)
    rng.shuffle(shuffled)
    return {name: edges[name] for name in shuffled}


def paths(graph: dict[str, list[str]], end: str) -> list[list[str]]:
    """Every path from a step without dependencies to `end`."""
    if not graph[end]:
        return [[end]]
    return [[*path, end] for other in graph[end] for path in paths(graph, other)]


def reaches(graph: dict[str, list[str]], name: str) -> set[str]:
    """Everything that `name` depends on, directly or not."""
    return set(graph[name]).union(*(reaches(graph, other) for other in graph[name]))


def test_successors():
    assert successors(DIAMOND) == {"d": [], "b": ["d"], "c": ["d"], "a": ["b", "c"]}


@pytest.mark.parametrize("seed", range(20))
def test_in_order_puts_everything_after_what_it_depends_on(seed):
    graph = random_graph(random.Random(seed), 30)
    ordered = in_order(graph)
    assert sorted(ordered) == sorted(graph)
    place = {name: i for i, name in enumerate(ordered)}
    assert all(place[other] < place[name] for name in graph for other in graph[name])


def test_no_cycle():
    assert cycle(DIAMOND) == []
    assert cycle({}) == []


def test_a_step_that_depends_on_itself():
    assert cycle({"a": ["a"]}) == ["a", "a"]


@pytest.mark.parametrize("seed", range(20))
def test_a_cycle_is_named_along_its_edges(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 20)
    late = max(graph, key=lambda name: len(reaches(graph, name)))
    early = rng.choice(sorted(reaches(graph, late)))
    graph[early] = [*graph[early], late]
    around = cycle(graph)
    assert len(around) > 1
    assert around[0] == around[-1]
    assert len(set(around)) == len(around) - 1
    assert all(other in graph[name] for name, other in itertools.pairwise(around))


def test_what_only_lies_behind_a_cycle_is_not_part_of_it():
    assert set(cycle({"after": ["a"], "a": ["b"], "b": ["a"]})) == {"a", "b"}


@pytest.mark.parametrize("seed", range(20))
def test_descendants_are_those_that_reach_a_root(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 25)
    roots = rng.sample(sorted(graph), 3)
    found = descendants(graph, roots)
    assert set(found) == {name for name in graph if reaches(graph, name) & set(roots)} - set(roots)
    assert all(root in roots and root in reaches(graph, name) for name, root in found.items())


@pytest.mark.parametrize("seed", range(20))
def test_the_critical_path_is_the_longest_of_all_paths(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 14)
    seconds = {name: rng.randrange(1, 1000) / 8 for name in graph}
    found = critical_path(graph, seconds)
    longest = max(sum(seconds[name] for name in path) for end in graph for path in paths(graph, end))
    assert sum(seconds[name] for name in found) == longest
    assert found in paths(graph, found[-1])


def test_a_step_that_did_not_run_takes_no_time():
    assert critical_path({"a": [], "b": []}, {"b": 1.0}) == ["b"]
    assert critical_path({}, {}) == []


def test_a_long_chain_is_no_recursion():
    chain = {str(i): [str(i - 1)] if i else [] for i in range(50_000)}
    assert len(critical_path(chain, dict.fromkeys(chain, 1.0))) == 50_000
    assert len(descendants(chain, ["0"])) == 49_999
    assert len(cycle({**chain, "0": ["49999"]})) == 50_001
