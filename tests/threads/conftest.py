"""Plain functions run on a pool, and on the one that alternates with the loop: the same tests on both."""

import threading

import pytest
from support.drive import checked, over
from support.hosts import SCHEDULERS
from support.time_limits import PAUSE_MS

import bursar

WORKERS = "16"  # on any machine, as many as a test needs at once


@pytest.fixture(autouse=True)
def pause_patience(monkeypatch):
    monkeypatch.setenv("BURSAR_PAUSE_MS", PAUSE_MS)


class Threads:
    """`go(fn, *args, **keywords)`: a checked run on the real clock, after which no thread of it is left."""

    runtime: bursar.Runtime

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def __call__(self, fn, *args, **keywords):
        before = set(threading.enumerate())
        self.runtime = checked(bursar.Runtime(**keywords))
        assert self.runtime.settings.scheduler == self.scheduler
        try:
            return self.runtime.run(fn, *args)
        finally:
            over(self.runtime)
            assert self.runtime.pump.sources == 0, "something outside is still waited for"
            assert set(threading.enumerate()) <= before, "a thread was left behind"


@pytest.fixture(params=SCHEDULERS)
def scheduler(request, monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", request.param)
    monkeypatch.setenv("BURSAR_WORKERS", WORKERS)
    return request.param


@pytest.fixture
def go(scheduler):
    return Threads(scheduler)


@pytest.fixture
def pool(monkeypatch):
    """Only where several functions must run at once."""
    monkeypatch.setenv("BURSAR_SCHEDULER", "threadpool")
    monkeypatch.setenv("BURSAR_WORKERS", WORKERS)
    return Threads("threadpool")
