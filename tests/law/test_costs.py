"""The cost table: what each operation costs."""

import pytest
from support.law import PAID, left, pay, root_pools

from bursar import Budget
from bursar.law.costs import CHANNEL, FREE, OP, SPAWN, SYSCALL, allocation


@pytest.mark.parametrize(
    ("cost", "ops", "memory", "spawns", "channel_ops", "syscalls"),
    [
        (FREE, 0, 0, 0, 0, 0),
        (OP, 1, 0, 0, 0, 0),  # a loop iteration, a function call
        (allocation(64), 1, 64, 0, 0, 0),
        (allocation(0), 1, 0, 0, 0, 0),
        (SPAWN, 1, 0, 1, 0, 0),
        (CHANNEL, 1, 0, 0, 1, 0),  # a send, a receive
        (SYSCALL, 1, 0, 0, 0, 1),  # file I/O, network I/O
    ],
)
def test_what_each_operation_costs(cost, ops, memory, spawns, channel_ops, syscalls):
    pools = root_pools(Budget(100, 100, 100, 100, 100))
    assert pay(pools, cost) == PAID
    assert [pool.spent for pool in pools] == [ops, memory, spawns, channel_ops, syscalls]
    assert left(pools) == Budget(100 - ops, 100 - memory, 100 - spawns, 100 - channel_ops, 100 - syscalls)
