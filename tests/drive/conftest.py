"""For the tests of the pump: runtimes that have begun on a scripted host."""

import pytest
from support.script import Script

from bursar import HostLost, Runtime


@pytest.fixture
def started():
    """Makes a runtime that has begun, its host, and the list of what it tells. What is left open is stopped."""
    made = []

    def start(main, *args):
        host = Script()
        runtime = Runtime(host=host)
        made.append(runtime)
        notes = []
        runtime.kernel.observe(lambda *note: notes.append(note))
        runtime.start(main, *args)
        return runtime, host, notes

    yield start
    for runtime in made:
        runtime.pump.stop(HostLost("the test is over"))
