"""The four profiles: what a runtime grants by default.

    core       no scheduler: any use is an error
    service    every capability granted and inherited, except `CapBudget`, which no task has; the root purse is open
    cluster    the same, and the main task holds `CapBudget`; supervisors and actors
    sovereign  nothing without an explicit grant: capabilities, budget and spawns are passed on by name; the end of a
               block seals its nursery

YIELD_INTERVAL is how many operations a task may do in one turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.arguments import require_choice
from bursar.errors import ProfileError
from bursar.law.budget import Budget
from bursar.law.capability import (
    Capability,
    CapBudget,
    CapChannel,
    CapClock,
    CapEntropy,
    CapExecutor,
    CapIO,
    CapSpawn,
    CapTimer,
)


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile."""

    name: str
    summary: str
    scheduler: bool = True
    actors: bool = False
    inherit: bool = True
    yield_interval: int = 1024
    default_spawns: int | None = None
    sealed: bool = False
    implicit: tuple[Capability, ...] = ()


_BACKENDS = frozenset({"cooperative", "native", "thread"})
_COMMON = (CapSpawn(), CapChannel(), CapExecutor(_BACKENDS), CapClock(), CapTimer(), CapEntropy(), CapIO())

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("core", "no scheduler: any use is an error", scheduler=False),
        Profile(
            "service",
            "the default: main gets every capability except CapBudget, and no limit without a budget",
            implicit=_COMMON,
        ),
        Profile(
            "cluster",
            "as service, and main also gets CapBudget; with supervisors and actors",
            actors=True,
            yield_interval=512,
            implicit=(*_COMMON, CapBudget(Budget.cluster())),
        ),
        Profile(
            "sovereign",
            "a task gets only the capabilities, budget and spawns that are named for it",
            actors=True,
            inherit=False,
            default_spawns=0,
            sealed=True,
        ),
    )
}


def find(name: str) -> Profile:
    """The profile of that name, if it may be run."""
    require_choice("profile", name, PROFILES)
    profile = PROFILES[name]
    if not profile.scheduler:
        raise ProfileError(f"profile {name!r} has no scheduler: nothing can be spawned or run in it; use 'service'")
    return profile
