"""The same operation costs the same in Python and in C: on a finite budget both can repeat it equally often."""

import ctypes

import pytest
from support.native import functions

import bursar
from bursar import Budget, BudgetExceeded, CapabilityDenied, checkpoint, nursery, select, sleep

UNITS = 60  # of each component: divisible by what the operations cost


async def _nothing():
    pass


async def _opens():
    async with nursery():
        pass


async def _spawns():
    async with nursery() as n:
        n.spawn(_nothing)


async def _recharges():
    with pytest.raises(CapabilityDenied):
        await bursar.recharge(Budget(ops=1))


# What a task repeats in Python, and the names of the same operation in C. Each C name gives one program of
# tests/support/native.c.
SHARED = {
    "yield": (lambda tx, rx: checkpoint(), ["yield", "scheduler_yield"]),
    "sleep": (lambda tx, rx: sleep(0), ["sleep"]),
    "open a nursery": (lambda tx, rx: _opens(), ["open"]),
    "open a nursery and spawn": (lambda tx, rx: _spawns(), ["spawn"]),
    "send and receive": (lambda tx, rx: _messages(tx, rx), ["message"]),
    "look for a message": (lambda tx, rx: select(rx.receive(), default=None), ["try_receive"]),
    "charge nothing": (lambda tx, rx: bursar.charge(), ["charge_nothing"]),
    "charge": (lambda tx, rx: bursar.charge(ops=3), ["charge"]),
    "recharge without the right": (lambda tx, rx: _recharges(), ["refused_recharge"]),
}

# Operations of C alone, or whose twin in Python is a plain call, and what each costs in ops.
ONLY_IN_C = {"select": 2, "channel": 1, "token": 1, "poll_exhausted": 1}


async def _messages(tx, rx):
    await tx.send(1)
    await rx.receive()


def calls_in_python(once):
    """How often a task can repeat an operation."""
    calls = 0

    async def repeats(tx, rx):
        nonlocal calls
        while calls < 10 * UNITS:
            await once(tx, rx)
            calls += 1

    async def main():
        tx, rx = bursar.channel(1)
        try:
            async with nursery() as n:
                budget = Budget(ops=UNITS, memory=UNITS, spawns=UNITS, channel_ops=UNITS, syscalls=UNITS)
                n.spawn(repeats, tx, rx, budget=budget)
        except* BudgetExceeded:
            pass

    bursar.run(main)
    return calls


def calls_in_c(name):
    function = functions().calls_on_budget
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_int64), ctypes.c_int64
    return function(name.encode(), UNITS)


@pytest.mark.parametrize("operation", SHARED)
def test_an_operation_costs_the_same_in_both(operation):
    once, names = SHARED[operation]
    in_python = calls_in_python(once)
    assert 0 < in_python <= UNITS
    assert {name: calls_in_c(name) for name in names} == dict.fromkeys(names, in_python)


@pytest.mark.parametrize("name", ONLY_IN_C)
def test_no_operation_of_c_can_be_repeated_without_end(name):
    assert calls_in_c(name) == UNITS // ONLY_IN_C[name]
