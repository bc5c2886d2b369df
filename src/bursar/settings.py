"""Settings: environment variables that give the defaults of the runtime's own gate and threads.

    BURSAR_SCHEDULER       STV_SCHEDULER                 threadpool | simple         threadpool
    BURSAR_WORKERS         STV_SCHED_WORKERS             functions at once           processors less one, 2 to 8
    BURSAR_CPU_SLOTS       STV_SCHED_CPU_SLOTS           slots                       as many as workers
    BURSAR_RAM_MB          STV_SCHED_RAM_MB_SOFT         MiB, soft; 0: no limit      2048
    BURSAR_VRAM_MB         STV_SCHED_VRAM_MB_SOFT        MiB, soft; 0: no limit      7680
    BURSAR_AGING_MS        STV_SCHED_AGING_INTERVAL_MS   ms per boost                500
    BURSAR_AGING_BOOST     STV_SCHED_AGING_BOOST         priority per interval       1
    BURSAR_PAUSE_MS        STV_SCHED_PAUSE_TIMEOUT_MS    ms to the next checkpoint   1500

The columns are: name, older name, value, default. The name on the left wins if both are set. An empty value counts as
not set. A value that makes no sense raises a warning that names the variable, and the default is used: another program
may have set the environment.

A browser has no threads. There the scheduler is always `solo`, which is `simple` without threads.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SCHEDULERS: Final = ("threadpool", "simple")
SOLO: Final = "solo"  # the scheduler of a platform without threads; it cannot be chosen
THREADS: Final = sys.platform != "emscripten"
PROCESSORS: Final = os.cpu_count()  # asked once: the call takes a tenth of the time that starting a run takes
WORKERS_MIN: Final = 2  # so that one long function does not keep all others from running
WORKERS_MAX: Final = 8  # functions in Python share one interpreter: more threads only take turns
WORKERS_UNKNOWN: Final = 4  # used where Python cannot tell the number of processors

ALIASES: Final = {
    "BURSAR_SCHEDULER": "STV_SCHEDULER",
    "BURSAR_WORKERS": "STV_SCHED_WORKERS",
    "BURSAR_CPU_SLOTS": "STV_SCHED_CPU_SLOTS",
    "BURSAR_RAM_MB": "STV_SCHED_RAM_MB_SOFT",
    "BURSAR_VRAM_MB": "STV_SCHED_VRAM_MB_SOFT",
    "BURSAR_AGING_MS": "STV_SCHED_AGING_INTERVAL_MS",
    "BURSAR_AGING_BOOST": "STV_SCHED_AGING_BOOST",
    "BURSAR_PAUSE_MS": "STV_SCHED_PAUSE_TIMEOUT_MS",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The value of every setting: from the environment, or the default."""

    scheduler: str
    workers: int
    cpu_slots: int
    ram_mb: int  # 0: no limit
    vram_mb: int
    aging_ms: int
    aging_boost: int
    pause_ms: int


def default_workers(processors: int | None = PROCESSORS) -> int:
    return WORKERS_UNKNOWN if processors is None else min(max(processors - 1, WORKERS_MIN), WORKERS_MAX)


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment."""
    workers = _whole(environment, "BURSAR_WORKERS", default_workers(), least=1)
    return Settings(
        scheduler=_scheduler(environment),
        workers=workers,
        cpu_slots=_whole(environment, "BURSAR_CPU_SLOTS", workers, least=1),
        ram_mb=_whole(environment, "BURSAR_RAM_MB", 2048, least=0),
        vram_mb=_whole(environment, "BURSAR_VRAM_MB", 7680, least=0),
        aging_ms=_whole(environment, "BURSAR_AGING_MS", 500, least=1),
        aging_boost=_whole(environment, "BURSAR_AGING_BOOST", 1, least=1),
        pause_ms=_whole(environment, "BURSAR_PAUSE_MS", 1500, least=1),
    )


def _found(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The name under which a value is set, and the value. The value is empty if neither name is set."""
    for known in (name, ALIASES[name]):
        value = environment.get(known, "").strip()
        if value:
            return known, value
    return name, ""


def _scheduler(environment: Mapping[str, str]) -> str:
    name, value = _found(environment, "BURSAR_SCHEDULER")
    if value and value not in SCHEDULERS:
        _warn(f"{name}={value}: must be one of {', '.join(SCHEDULERS)}; {SCHEDULERS[0]} is used")
    if not THREADS:
        return SOLO
    return value if value in SCHEDULERS else SCHEDULERS[0]


def _whole(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    name, value = _found(environment, name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        _warn(f"{name}={value}: must be a whole number, {least} or more; {default} is used")
        return default
    return number


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
