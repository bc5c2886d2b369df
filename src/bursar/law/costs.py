"""The cost table: what each operation costs, by component. A request says which row it costs (`Request.bill`).

`native/law/generated/costs.h` is generated from this file. `law/ledger.py` charges costs, and `law/pool.py` pays them.
"""

from __future__ import annotations

from typing import Final

from bursar.law.budget import CHANNEL_OPS, MEMORY, OPS, SPAWNS, SYSCALLS

# A cost is a sparse row of the cost table: (component, amount) pairs. The component of a named counter is its name;
# such pairs come last.
Component = int | str
Cost = tuple[tuple[Component, int], ...]
FREE: Final[Cost] = ()
OP: Final[Cost] = ((OPS, 1),)  # a loop iteration or a function call
SPAWN: Final[Cost] = ((OPS, 1), (SPAWNS, 1))
CHANNEL: Final[Cost] = ((OPS, 1), (CHANNEL_OPS, 1))  # a send or a receive
SYSCALL: Final[Cost] = ((OPS, 1), (SYSCALLS, 1))  # file or network I/O


def allocation(size: int) -> Cost:
    """The cost of an allocation of `size` bytes."""
    return ((OPS, 1), (MEMORY, size))
