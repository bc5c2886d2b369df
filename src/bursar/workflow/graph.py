"""What can be said of a graph of named steps without running any: order, cycles, descendants, the critical path.

A graph is a mapping from a name to the names that it depends on; every name that occurs is a key. The functions are
loops, not recursions: a chain of a hundred thousand steps is legal. Ties are broken by the order of the mapping, so
that equal graphs give equal answers.

Rejected: `graphlib`, which finds a cycle but not always the same one, and knows no weights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

Graph = Mapping[str, Collection[str]]


def successors(graph: Graph) -> dict[str, list[str]]:
    """The same graph the other way round."""
    found: dict[str, list[str]] = {name: [] for name in graph}
    for name, needed in graph.items():
        for other in needed:
            found[other].append(name)
    return found


def in_order(graph: Graph) -> list[str]:
    """Every name after those it depends on; what lies on a cycle, or behind one, is missing."""
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
    """The names along one cycle, the first one again at the end; empty if there is none."""
    left = dict.fromkeys(graph)
    for name in in_order(graph):
        del left[name]
    if not left:
        return []
    # Whatever is left depends on something that is left: whoever follows that must come around.
    seen: dict[str, int] = {}
    name = next(iter(left))
    while name not in seen:
        seen[name] = len(seen)
        name = next(other for other in graph[name] if other in left)
    around = [found for found, position in seen.items() if position >= seen[name]]
    return [*around, name]


def descendants(graph: Graph, roots: Iterable[str]) -> dict[str, str]:
    """Everything behind the roots, each with the root that reached it first; the roots themselves excluded."""
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
    """The chain of dependent steps that took longest: with ever more resources, the whole can not be faster.

    A step without an entry in `seconds` did not run and takes no time.
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
