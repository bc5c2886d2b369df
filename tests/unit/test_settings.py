"""Settings: what the environment says, its older names, and what is made of nonsense."""

import pytest

from bursar import Runtime, settings
from bursar.settings import ALIASES, Settings, default_workers, read

PLAIN = Settings("threadpool", default_workers(), default_workers(), 2048, 7680, 500, 1, 1500)
FIELDS = {
    "BURSAR_WORKERS": "workers",
    "BURSAR_CPU_SLOTS": "cpu_slots",
    "BURSAR_RAM_MB": "ram_mb",
    "BURSAR_VRAM_MB": "vram_mb",
    "BURSAR_AGING_MS": "aging_ms",
    "BURSAR_AGING_BOOST": "aging_boost",
    "BURSAR_PAUSE_MS": "pause_ms",
}


def test_an_empty_environment_gives_the_defaults():
    assert read({}) == PLAIN
    assert read(dict.fromkeys([*ALIASES, *ALIASES.values()], "")) == PLAIN


@pytest.mark.parametrize(("processors", "workers"), [(None, 4), (1, 2), (2, 2), (4, 3), (9, 8), (64, 8)])
def test_the_workers_follow_the_processors(processors, workers):
    assert default_workers(processors) == workers


def test_there_are_eight_and_each_has_its_older_name():
    assert list(ALIASES.values()) == [
        "STV_SCHEDULER",
        "STV_SCHED_WORKERS",
        "STV_SCHED_CPU_SLOTS",
        "STV_SCHED_RAM_MB_SOFT",
        "STV_SCHED_VRAM_MB_SOFT",
        "STV_SCHED_AGING_INTERVAL_MS",
        "STV_SCHED_AGING_BOOST",
        "STV_SCHED_PAUSE_TIMEOUT_MS",
    ]


@pytest.mark.parametrize("name", FIELDS)
def test_each_number_by_either_name(name):
    field = FIELDS[name]
    assert getattr(read({name: "77"}), field) == 77
    assert getattr(read({ALIASES[name]: " 77 "}), field) == 77
    assert getattr(read({name: "78", ALIASES[name]: "77"}), field) == 78


@pytest.mark.parametrize("name", ["BURSAR_SCHEDULER", "STV_SCHEDULER"])
def test_the_scheduler_by_either_name(name):
    assert read({name: "simple"}).scheduler == "simple"
    assert read({name: "threadpool"}).scheduler == "threadpool"


def test_the_slots_follow_the_workers():
    assert read({"STV_SCHED_WORKERS": "6"}).cpu_slots == 6
    assert read({"STV_SCHED_WORKERS": "6", "STV_SCHED_CPU_SLOTS": "3"}).cpu_slots == 3


@pytest.mark.parametrize("value", ["many", "1.5", "-1", "0x10", "١٢x"])
@pytest.mark.parametrize("name", [*FIELDS, *(ALIASES[name] for name in FIELDS)])
def test_a_bad_number_is_warned_of_and_the_default_kept(name, value):
    with pytest.warns(RuntimeWarning, match=rf"{name}={value}: must be a whole number"):
        assert read({name: value}) == PLAIN


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"BURSAR_RAM_MB", "BURSAR_VRAM_MB"}))
def test_zero_is_no_number_of_workers_but_no_limit_of_memory(name):
    with pytest.warns(RuntimeWarning, match="1 or more"):
        assert read({name: "0"}) == PLAIN
    assert read({"BURSAR_RAM_MB": "0", "BURSAR_VRAM_MB": "0"}).ram_mb == 0


@pytest.mark.parametrize("name", ["BURSAR_SCHEDULER", "STV_SCHEDULER"])
def test_an_unknown_scheduler_is_warned_of(name):
    with pytest.warns(RuntimeWarning, match=rf"{name}=fifo: must be one of threadpool, simple; threadpool is used"):
        assert read({name: "fifo"}) == PLAIN


def test_a_runtime_reads_them_when_it_is_made(monkeypatch):
    monkeypatch.setenv("STV_SCHEDULER", "simple")
    runtime = Runtime()
    monkeypatch.delenv("STV_SCHEDULER")
    assert runtime.settings.scheduler == "simple"
    assert runtime.header()["scheduler"] == "simple"
    assert Runtime().settings == settings.read()
