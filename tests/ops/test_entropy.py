"""Random numbers from the seed and from the host."""

import pytest
from support.evidence import Memory, unpack_answer

import bursar
from bursar import Budget


def test_random_numbers_come_from_the_seed(run):
    async def main():
        return [await bursar.entropy() for _ in range(5)]

    assert run(main, seed=1) == run(main, seed=1)
    assert run(main, seed=1) != run(main, seed=2)
    assert all(0 <= n < 2**64 for n in run(main))


def test_random_numbers_need_their_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not draw random numbers.*CapEntropy"):
            await bursar.entropy()

    run(main, capabilities=[])


def test_the_hosts_entropy_is_not_that_of_the_seed(run):
    async def main():
        return await bursar.host_entropy(16), await bursar.host_entropy(16), await bursar.host_entropy(0)

    first, second, nothing = run(main, seed=1)
    assert len(first) == len(second) == 16
    assert nothing == b""
    assert first != second
    assert first != run(main, seed=1)[0]


def test_the_hosts_entropy_leaves_the_stream_of_the_seed_alone(run):
    async def main(draws):
        for _ in range(draws):
            await bursar.host_entropy(8)
        return await bursar.entropy()

    assert run(main, 0) == run(main, 5)


def test_the_hosts_entropy_needs_its_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not draw entropy of the host.*CapEntropy"):
            await bursar.host_entropy(8)

    run(main, capabilities=[])


def test_the_hosts_entropy_costs_a_system_call(run):
    async def main():
        for _ in range(3):
            await bursar.host_entropy(8)

    run(main, budget=Budget(syscalls=3))
    with pytest.raises(bursar.BudgetExceeded, match="syscalls"):
        run(main, budget=Budget(syscalls=2))


@pytest.mark.parametrize("size", [-1, 2**16 + 1, 1.0, True, "8"])
def test_a_size_of_entropy_that_makes_no_sense_is_refused(size):
    with pytest.raises(ValueError, match="whole number of bytes"):
        bursar.host_entropy(size)


def test_the_hosts_entropy_is_on_record(run):
    async def main():
        return await bursar.host_entropy(8)

    memory = Memory()
    drawn = run(main, record=memory)
    (answer,) = [event for event in memory.events() if event.name == "host_answer"]
    assert unpack_answer(answer.blob) == ("entropy", drawn)
