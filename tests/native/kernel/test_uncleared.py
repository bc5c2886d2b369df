"""The types without tp_clear (RECORD-5 in native/python/law/records.h): the collector breaks every cycle through them.

Their objects refer to at most one thing, which never changes and leads to an object that has tp_clear. The cycles
through an end, an event, a request, a view, a worker and the children of a nursery are in test_lifetimes.py; the others
are here.
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
    """The name of every type that the collector tracks, and the text of its slots."""
    for path in sorted(SOURCES.rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        slots = dict(SLOTS.findall(text))
        for spec in SPEC.findall(text):
            name, table = re.search(r'\.name = "[\w.]+?(\w+)"', spec), re.search(r"\.slots = (\w+)", spec)
            if "Py_TPFLAGS_HAVE_GC" in spec:
                assert name, f"{path.name}: {spec}"
                assert table, f"{path.name}: {spec}"
                yield name[1], slots[table[1]]


def test_these_types_and_no_others_have_no_tp_clear():
    """For a new type without tp_clear, add the type that it refers to. RECORD-5 in law/records.h must hold for it."""
    types = dict(collected_types())
    assert all("Py_tp_traverse" in slots for slots in types.values())
    assert {name for name, slots in types.items() if "Py_tp_clear" not in slots} == set(LEADS_TO)


def test_each_leads_to_a_type_with_tp_clear():
    types = dict(collected_types())
    for name in LEADS_TO:
        last = name
        while last in LEADS_TO and LEADS_TO[last] is not None:
            last = LEADS_TO[last]
        assert LEADS_TO.get(last, "") is None or "Py_tp_clear" in types[last], name


# ---- cycles


class Mark:
    """An object with attributes, to which a weak reference can be made."""


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
        accounts = _native.MemoryAccountSet(lambda *_: mark)
    except RuntimeError as error:
        pytest.skip(str(error))  # not every build has a memory meter
    mark.holds = _native.MemoryAccount(accounts, 1)


RINGS = [ring for name, ring in sorted(globals().items()) if name.startswith("ring_")]


@pytest.mark.filterwarnings("ignore:a request .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("ring", RINGS, ids=lambda ring: ring.__name__)
def test_the_collector_breaks_every_cycle(ring):
    gc.collect()
    mark = Mark()
    ring(mark)
    seen = weakref.ref(mark)
    del mark
    assert seen() is not None
    gc.collect()
    assert seen() is None
