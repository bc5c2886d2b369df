"""The decision chain: a 64-bit hash over all decisions so far.

    h' = mix64(mix64(h ^ subject) ^ circumstances)
    subject        = task id (low 32 bits) | nursery id << 32
    circumstances  = lane | worker << 4 | cancel streak << 20 | cancel limit << 28 | generation << 36

each reduced modulo 2**64. The chain starts at `seed_chain(seed, workers)`. Equal chains mean equal schedules: after
the first different decision, two chains stay different. docs/internals/chain.md has worked values that every
implementation must reproduce.

`RandomStream` is the only source of randomness in the law: the same mixer over a counter (splitmix64). Each use has
its own stream, so that one more draw in one place does not change the draws of another.
"""

from __future__ import annotations

from typing import Final

MASK64: Final = (1 << 64) - 1
GOLDEN: Final = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd: the counter step of splitmix64


def mix64(x: int) -> int:
    """The splitmix64 finalizer: a bijection of 64-bit words in which every input bit moves every output bit."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def seed_chain(seed: int, workers: int) -> int:
    """The first value of a chain. Runs with different seeds or worker counts do not share a value by accident."""
    return mix64(((seed & MASK64) ^ mix64(workers)) + GOLDEN & MASK64)


def link(
    chain: int,
    task_id: int,
    nursery_id: int,
    lane: int,
    worker: int,
    cancel_streak: int,
    cancel_limit: int,
    generation: int,
) -> int:
    """The chain after one more decision."""
    subject = (task_id & 0xFFFFFFFF) | (nursery_id & 0xFFFFFFFF) << 32
    circumstances = lane | worker << 4 | cancel_streak << 20 | cancel_limit << 28 | generation << 36
    return mix64(mix64(chain ^ subject) ^ (circumstances & MASK64))


def fingerprint(chain: int) -> str:
    """A chain value as text: 16 hexadecimal digits."""
    return f"{chain:016x}"


class RandomStream:
    """A seeded stream of 64-bit numbers (splitmix64)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, purpose: int) -> None:
        self._state = mix64((seed & MASK64) ^ mix64(purpose + GOLDEN & MASK64))

    def next(self) -> int:
        self._state = self._state + GOLDEN & MASK64
        return mix64(self._state)

    def below(self, n: int) -> int:
        """A number in [0, n): the high half of a 64×64 multiplication. For small n the bias is negligible."""
        return self.next() * n >> 64
