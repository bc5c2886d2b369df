"""Functions of a graph of named steps: order, cycles, descendants, the critical path.

A graph is a mapping from each name to the names of its dependencies; every name is a key. The functions use loops and
no recursion, because a chain of a hundred thousand steps is legal. Where several answers are right, the order of the
mapping decides, so that equal graphs give equal answers.

Rejected: `graphlib`. It does not always find the same cycle, and it has no weights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

Graph = Mapping[str, Collection[str]]


def successors(graph: Graph) -> dict[str, list[str]]:
    """The names that depend directly on each name."""
    found: dict[str, list[str]] = {name: [] for name in graph}
    for name, needed in graph.items():
        for other in needed:
            found[other].append(name)
    return found


def in_order(graph: Graph) -> list[str]:
    """The names, each after its dependencies, without those that are on a cycle or depend on one."""
    after = successors(graph)
    unmet = {name: len(needed) for name, needed in graph.items()}
    free = deque(name for name, count in unmet.items() if not count)
    ordered: list[str] = []
    while free:
        name = free.popleft()
        ordered.append(name)
        for other in after[name]:
            unmet[other] -= 1
            if not unmet[other]:
                free.append(other)
    return ordered


def cycle(graph: Graph) -> list[str]:
    """The names along one cycle, with the first name again at the end; empty if there is no cycle."""
    left = dict.fromkeys(graph)
    for name in in_order(graph):
        del left[name]
    if not left:
        return []
    # Each name that is left depends on another one that is left, so a walk along them returns to a name it has seen.
    seen: dict[str, int] = {}
    name = next(iter(left))
    while name not in seen:
        seen[name] = len(seen)
        name = next(other for other in graph[name] if other in left)
    around = [found for found, position in seen.items() if position >= seen[name]]
    return [*around, name]


def descendants(graph: Graph, roots: Iterable[str]) -> dict[str, str]:
    """All names that depend on a root, directly or not, each with the root that reached it first. Without the roots."""
    after = successors(graph)
    roots = list(roots)
    found = {name: name for name in roots}
    queue = deque(roots)
    while queue:
        name = queue.popleft()
        for other in after[name]:
            if other not in found:
                found[other] = found[name]
                queue.append(other)
    return {name: root for name, root in found.items() if name != root}


def critical_path(graph: Graph, seconds: Mapping[str, float]) -> list[str]:
    """The chain of dependent steps that took longest. No additional resources can make the run faster than this chain.

    A step without an entry in `seconds` did not run and counts as 0.
    """
    total: dict[str, float] = {}
    before: dict[str, str] = {}
    for name in in_order(graph):
        longest = 0.0
        for other in graph[name]:
            if name not in before or total[other] > longest:
                longest, before[name] = total[other], other
        total[name] = longest + seconds.get(name, 0.0)
    if not total:
        return []
    name = max(total, key=lambda found: total[found])  # the first of several
    path = [name]
    while name in before:
        name = before[name]
        path.append(name)
    return path[::-1]
