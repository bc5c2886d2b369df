"""Types that the collector follows and cannot take apart: which these are, and that it opens every ring through them.

Each refers to one thing at most, which is set when it is made and never changed, and that leads to what can be taken
apart: RECORD-5 in native/python/law/records.h. The rings through an end, an event, a request, a view, a worker and the
children of a nursery are in test_lifetimes.py; here are the rest.
"""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path

import pytest
from support.kernel import NATIVE

import bursar

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)

from bursar import _native

SOURCES = Path(__file__).parents[3] / "native" / "python"
LEADS_TO = {
    "Request": None,
    "Operation": None,
    "Checkpoint": None,
    "_Sleep": None,
    "Worker": None,
    "EndCore": "ChannelCore",
    "SendCore": "ChannelCore",
    "ReceiveCore": "ChannelCore",
    "Receive": "EndCore",
    "Next": "EndCore",
    "EventWait": "Event",
    "QueueView": "Kernel",  # or a worker
    "Children": "Nursery",
    "MemoryAccount": "MemoryAccountSet",
}
SLOTS = re.compile(r"PyType_Slot (\w+)\[\] = \{(.*?)\n\};", re.DOTALL)
SPEC = re.compile(r"PyType_Spec \w+ = \{(.*?)\n\};", re.DOTALL)


def collected_types():
    """Of every type that the collector follows, its name and the text of its slots."""
    for path in sorted(SOURCES.rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        slots = dict(SLOTS.findall(text))
        for spec in SPEC.findall(text):
            name, table = re.search(r'\.name = "[\w.]+?(\w+)"', spec), re.search(r"\.slots = (\w+)", spec)
            if "Py_TPFLAGS_HAVE_GC" in spec:
                assert name, f"{path.name}: {spec}"
                assert table, f"{path.name}: {spec}"
                yield name[1], slots[table[1]]


def test_these_types_and_no_others_are_not_taken_apart():
    """Whoever adds one says here where it leads, and why in law/records.h if it is not as said there."""
    types = dict(collected_types())
    assert all("Py_tp_traverse" in slots for slots in types.values())
    assert {name for name, slots in types.items() if "Py_tp_clear" not in slots} == set(LEADS_TO)


def test_each_leads_to_what_is_taken_apart():
    types = dict(collected_types())
    for name in LEADS_TO:
        last = name
        while last in LEADS_TO and LEADS_TO[last] is not None:
            last = LEADS_TO[last]
        assert LEADS_TO.get(last, "") is None or "Py_tp_clear" in types[last], name


# ---- rings


class Mark:
    """Can be watched, and can hold anything."""


def receiving(mark):
    """A receiving end, with the mark in the buffer of its channel."""
    tx, rx = bursar.channel(1)

    async def main():
        await tx.send(mark)

    bursar.run(main)
    return rx


def ring_receive_end(mark):
    mark.holds = receiving(mark)


def ring_receive(mark):
    mark.holds = receiving(mark).receive()
    assert type(mark.holds) is _native.Receive


def ring_next(mark):
    mark.holds = receiving(mark).__anext__()
    assert type(mark.holds).__name__ == "Next"


def ring_end(mark):
    class End(_native.EndCore):
        pass

    mark.holds = End(_native.ChannelCore(1))
    mark.holds.mark = mark


def ring_operation(mark):
    class Waits(_native.Operation):
        pass

    mark.holds = Waits()
    mark.holds.mark = mark


def ring_account(mark):
    try:
        book = _native.MemoryAccountSet(lambda *_: mark)
    except RuntimeError as error:
        pytest.skip(str(error))  # it is not metered everywhere
    mark.holds = _native.MemoryAccount(book, 1)


RINGS = [ring for name, ring in sorted(globals().items()) if name.startswith("ring_")]


@pytest.mark.parametrize("ring", RINGS, ids=lambda ring: ring.__name__)
def test_the_collector_opens_every_ring(ring):
    gc.collect()
    mark = Mark()
    ring(mark)
    seen = weakref.ref(mark)
    del mark
    assert seen() is not None
    gc.collect()
    assert seen() is None
