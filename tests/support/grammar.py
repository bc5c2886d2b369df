"""How a random program is drawn: the same from the same numbers.

A body is a list of statements, a statement [name, number, number, bodies]. What the names mean is for others to say:
`support.programs`, `support.admission_programs`.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple


class Grammar(NamedTuple):
    """Which statements there are, and how often each."""

    plain: dict[str, float]
    nested: dict[str, float]  # these hold a body
    doubled: frozenset[str]  # of these: two
    length: tuple[int, int]  # of a body
    depth_max: int

    def body(self, random: Random, left: list[int], depth: int) -> list:
        """`left`: how many statements the whole of it may still have."""
        statements = []
        for _ in range(random.randint(*self.length)):
            if left[0] <= 0:
                break
            left[0] -= 1
            statements.append(self._statement(random, left, depth))
        return statements

    def _statement(self, random: Random, left: list[int], depth: int) -> list:
        table = {**self.plain, **self.nested} if depth < self.depth_max else self.plain
        name = random.choices(list(table), weights=list(table.values()))[0]
        statement: list = [name, random.randrange(1000), random.randrange(1000)]
        for _ in range((name in self.nested) + (name in self.doubled)):
            statement.append(self.body(random, left, depth + 1))
        return statement
