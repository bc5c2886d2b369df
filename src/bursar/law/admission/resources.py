"""Resources: the limits of a gate, what is taken, and whether a demand fits.

A *slot* is a resource too: every admitted task takes one, and `max_concurrent` is the number of slots. A demand holds
pairs (resource, amount), for limited resources only. So a resource without a limit costs nothing to check.
`law/admission/gate.py` has the reservations: what a big task that waits keeps later tasks from taking. (A reservation
in a channel is another thing: `ops/channel.py`.)

RESOURCES-1  no task gets more of a hard resource than its limit leaves
RESOURCES-2  no task gets more of a soft resource than its limit leaves, unless no other task takes any of it (the
    escape rule)
RESOURCES-3  what is taken is the sum of what all tickets hold; what LENT tickets keep is a part of it

Rejected: starting a task that is too big for a soft limit only when no other task runs. It would wait for tasks that
take nothing of that resource, and in a program with one long-lived task it would never run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from bursar.errors import InfeasibleDemand
from bursar.text import brief

SLOT: Final = "slot"
NOTHING: Final[Mapping[str, int]] = {}
SOFT_BY_NAME: Final = frozenset({"ram", "vram"})
GIVEN_BACK: Final = frozenset({SLOT, "cpu"})  # what a LENT ticket gives back; it keeps the rest
AMOUNT_MAX: Final = 2**60  # an exbibyte; the sum of a limit and three amounts fits a signed 64-bit word
ALIKE_MAX: Final = 1024  # how many different demands are kept, one copy of each for all tasks that have it

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i)?)?b?\s*", re.IGNORECASE)
_POWERS: Final = "kmgtp"

Demand = tuple[tuple[int, int], ...]  # (number of a limited resource, amount), by number
Needs = Mapping[str, int | float | str]


@dataclass(frozen=True, slots=True)
class Hard:
    """A limit beyond which no task is admitted. A task that needs more is refused with `InfeasibleDemand`.

    Attributes:
        amount: A whole number, or a size such as `"512MiB"`.
    """

    amount: int | float | str | None


@dataclass(frozen=True, slots=True)
class Soft:
    """A limit that one task alone may exceed, while no other task uses any of it.

    Attributes:
        amount: A whole number, or a size such as `"512MiB"`.
    """

    amount: int | float | str | None


class Limit(NamedTuple):
    """The limit of one resource."""

    name: str
    amount: int | None
    soft: bool


def to_amount(value: Any, what: str) -> int:
    """A whole number from a number or from a size such as "512MiB"."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None:
            raise ValueError(f"{what}={value!r}: not a size; write a number, or one like '512MiB' or '2GB'")
        number, unit, binary = match.groups()
        power = _POWERS.index(unit.lower()) + 1 if unit else 0
        value = float(number) * (1024 if binary else 1000) ** power
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= AMOUNT_MAX:
        raise ValueError(f"{what}={brief(value, repr)}: must be a number, not negative, or a size such as '512MiB'")
    if value != int(value):
        raise ValueError(f"{what}={value!r}: must be whole; resources are counted, not divided")
    return int(value)


def in_words(amount: int) -> str:
    """An amount as text: a size, if it is a whole number of mebibytes or gibibytes."""
    for size, unit in ((2**30, "GiB"), (2**20, "MiB")):
        if amount and amount % size == 0:
            return f"{amount // size:,} {unit}"
    return f"{amount:,}"


def limits_of(resources: Any) -> tuple[Limit, ...]:
    """The limits that an authority states, checked."""
    if not isinstance(resources, Mapping):
        raise TypeError(f"resources={brief(resources, repr)}: must be a mapping such as {{'cpu': 4, 'ram': '8GiB'}}")
    limits: list[Limit] = []
    for name, stated in cast("Mapping[Any, Any]", resources).items():
        if not isinstance(name, str) or not name or name == SLOT:
            raise ValueError(f"resources: {brief(name, repr)} cannot be the name of a resource")
        soft = isinstance(stated, Soft) or (name in SOFT_BY_NAME and not isinstance(stated, Hard))
        amount: Any = stated.amount if isinstance(stated, Hard | Soft) else stated
        limits.append(Limit(name, None if amount is None else to_amount(amount, f"resources: {name}"), soft))
    return tuple(limits)


class Shortage(NamedTuple):
    """What a demand is short of, taken from the check that made it wait."""

    resource: str
    needed: int
    limit: int
    taken: int

    def __str__(self) -> str:
        needed, taken, limit = in_words(self.needed), in_words(self.taken), in_words(self.limit)
        return f"{self.resource} (needs {needed}, {taken} of {limit} taken)"


class Resources:
    """The resources of one gate: limits, and what is taken."""

    def __init__(self, slots: int | None, limits: tuple[Limit, ...]) -> None:
        self.limits = (Limit(SLOT, slots, False), *limits)
        self.numbers = {limit.name: i for i, limit in enumerate(self.limits)}
        self.taken = [0] * len(self.limits)
        self.peak = [0] * len(self.limits)
        self.kept = [0] * len(self.limits)  # the part of `taken` that LENT tickets keep
        self._known: dict[int, tuple[Demand, Mapping[str, int]]] = {}
        self._alike: dict[tuple[tuple[str, int], ...], tuple[Demand, Mapping[str, int]]] = {}
        self.least: Demand = () if slots is None else ((0, 1),)  # the demand of a task without needs
        self.thread_needs: Needs = self.remember({"cpu": 1} if "cpu" in self.numbers else {})  # the default
        self.thread_demand = self.demand(self.thread_needs, "")

    def name(self, number: int) -> str:
        return self.limits[number].name

    def limit(self, number: int) -> int:
        amount = self.limits[number].amount
        assert amount is not None, "only what is limited is demanded"
        return amount

    def demand(self, needs: Needs, task: str) -> tuple[Demand, Mapping[str, int]]:
        """The demand of a task with these needs, and all its needs as numbers. Raises `InfeasibleDemand` if they can
        never be met."""
        if not needs:
            return self.least, NOTHING
        known = self._known.get(id(needs))
        if known is not None:
            return known
        amounts, stated = dict(self.least), dict[str, int]()
        for name, value in needs.items():
            number = self.numbers.get(name)
            if number is None or name == SLOT:
                known = ", ".join(limit.name for limit in self.limits[1:]) or "none"
                raise InfeasibleDemand(
                    f"task {task!r} needs {brief(name, repr)}, which its gate does not have (it has: {known}); "
                    "add it to the resources of the gate"
                )
            _, limit, soft = self.limits[number]
            amount = stated[name] = to_amount(value, f"task {task!r} needs {name}")
            if limit is None or not amount:
                continue
            if amount > limit and not soft:
                raise InfeasibleDemand(
                    f"task {task!r} needs {in_words(amount)} of {name}, and there are {in_words(limit)} in all; "
                    "it could never start"
                )
            amounts[number] = amount
        alike = self._alike.get(key := tuple(stated.items()))
        if alike is None:
            alike = tuple(sorted(amounts.items())), stated
            if len(self._alike) < ALIKE_MAX:
                self._alike[key] = alike
        return alike

    def remember(self, needs: Needs) -> Needs:
        """Keep the demand of needs that many tasks will have. The needs must not be changed afterwards."""
        self._known[id(needs)] = self.demand(needs, "")
        return needs

    def fits(self, demand: Demand, then: Sequence[int] | None = None) -> bool:
        """Whether the demand fits now; or with `then`, what was taken at another moment."""
        taken, limits = self.taken if then is None else then, self.limits
        for number, amount in demand:
            _, limit, soft = limits[number]
            assert limit is not None, "only what is limited is demanded"
            if taken[number] + amount > limit and not (soft and not taken[number]):  # RESOURCES-1, RESOURCES-2
                return False
        return True

    def shortages(self, demand: Demand, then: Sequence[int] | None = None) -> list[Shortage]:
        """Everything that the demand is short of, when `fits` is False."""
        taken = self.taken if then is None else then
        return [
            Shortage(self.name(number), amount, self.limit(number), taken[number])
            for number, amount in demand
            if not self.fits(((number, amount),), taken)
        ]

    def breaks_reservation(self, demand: Demand, reserved: Demand) -> bool:
        """Whether taking `demand` now would prevent or delay that `reserved` fits."""
        wanted = dict(reserved)
        for number, amount in demand:
            needed = wanted.get(number)
            if needed is not None and self.taken[number] + amount + needed > self.limit(number):
                return True
        return False

    def keep(self, demand: Demand, sign: int) -> None:
        """The holder of `demand` is LENT from now on (`sign` 1), or not any more (-1)."""
        for number, amount in demand:
            self.kept[number] += sign * amount
            assert 0 <= self.kept[number] <= self.taken[number], "RESOURCES-3"

    def drains(self, demand: Demand) -> bool:
        """Whether the demand would fit if only LENT tickets held anything."""
        return self.fits(demand, self.kept)

    def take(self, demand: Demand) -> None:
        for number, amount in demand:
            self.taken[number] += amount
            self.peak[number] = max(self.peak[number], self.taken[number])

    def give_back(self, demand: Demand) -> None:
        for number, amount in demand:
            self.taken[number] -= amount
            assert self.taken[number] >= 0, "RESOURCES-1"

    def lendable(self, demand: Demand) -> Demand:
        """The part of a demand that a paused task does not use."""
        return tuple(pair for pair in demand if self.name(pair[0]) in GIVEN_BACK)
