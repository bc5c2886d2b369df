"""The decision chain, bit for bit, and the seeded streams: values that any other implementation must reproduce."""

import random
from itertools import product

import pytest
from support.kernel import Kernel

from bursar.law.chain import GOLDEN, MASK64, RandomStream, fingerprint, link, mix64, seed_chain

# The numbers marked as worked were computed by a C program that shares no line with the code under test.

# the published test vectors of splitmix64
SPLITMIX64 = {
    0: [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
        0xF88BB8A8724C81EC,
        0x1B39896A51A8749B,
    ],
    1234567: [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ],
}


def unmix64(x: int) -> int:
    """The inverse of the mixer, step by step backwards."""
    x ^= (x >> 31) ^ (x >> 62)
    x = x * pow(0x94D049BB133111EB, -1, 1 << 64) & MASK64
    x ^= (x >> 27) ^ (x >> 54)
    x = x * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & MASK64
    return x ^ (x >> 30) ^ (x >> 60)


# ---- the mixer


@pytest.mark.parametrize("state", SPLITMIX64)
def test_a_stream_is_splitmix64(state):
    stream = RandomStream(0, 0)
    stream._state = state
    assert [stream.next() for _ in range(5)] == SPLITMIX64[state]


def test_the_mixer_loses_nothing():
    rng = random.Random(1)
    words = [0, 1, MASK64, 1 << 63, GOLDEN, *(rng.getrandbits(64) for _ in range(1000))]
    assert all(0 <= mix64(x) <= MASK64 for x in words)
    assert [unmix64(mix64(x)) for x in words] == words


@pytest.mark.parametrize("bit", range(64))
def test_every_input_bit_moves_about_half_of_the_output_bits(bit):
    rng = random.Random(bit)
    words = [rng.getrandbits(64) for _ in range(200)]
    moved = [(mix64(x) ^ mix64(x ^ 1 << bit)).bit_count() for x in words]
    assert 28 < sum(moved) / len(moved) < 36


# ---- the chain


@pytest.mark.parametrize(
    ("seed", "workers", "start"),
    [
        (0, 1, "bfef8030ddc2d772"),
        (0, 4, "118ed29b931893b4"),
        (42, 1, "e36a9a2d0e015d43"),
        (-1, 1, "7ee8be1b285050a3"),
    ],
)
def test_where_a_chain_starts(seed, workers, start):  # worked
    assert fingerprint(seed_chain(seed, workers)) == start


def test_no_two_of_many_runs_start_alike():
    starts = {seed_chain(seed, workers) for seed, workers in product(range(100), range(1, 65))}
    assert len(starts) == 6400


def test_a_seed_counts_modulo_two_to_the_64():
    assert seed_chain(5 + (1 << 64), 3) == seed_chain(5, 3)
    assert seed_chain(-1, 3) == seed_chain(MASK64, 3)


def test_five_decisions_in_a_row():  # worked
    chain = seed_chain(0, 1)
    values = []
    for decision in [
        # task, nursery, lane, worker, streak, limit, generation
        (2, 1, 3, 0, 0, 16, 1),
        (3, 1, 1, 0, 1, 32, 1),
        (2, 1, 2, 5, 0, 16, 2),
        (4, 3, 4, 4095, 0, 16, 7),
        (3, 1, 5, 0, 0, 32, 2),
    ]:
        chain = link(chain, *decision)
        values.append(fingerprint(chain))
    assert values == [
        "5c0ff61c77141ecd",
        "84812cc9d6cb64c7",
        "2a7242af64574c93",
        "799eec6ff680a88f",
        "db55c9821bc414db",
    ]


FIELDS = ("task_id", "nursery_id", "lane", "worker", "cancel_streak", "cancel_limit", "generation")
# field → (which word it goes into, its lowest bit, how many bits it has)
LAYOUT = {
    "task_id": ("subject", 0, 32),
    "nursery_id": ("subject", 32, 32),
    "lane": ("circumstances", 0, 4),
    "worker": ("circumstances", 4, 16),
    "cancel_streak": ("circumstances", 20, 8),
    "cancel_limit": ("circumstances", 28, 8),
    "generation": ("circumstances", 36, 28),
}
CHAIN = 0x0123456789ABCDEF


def words(**decision: int) -> dict[str, int]:
    """The two words that `link` mixed in, recovered by running the mixer backwards."""
    mixed = link(CHAIN, *(decision.get(field, 0) for field in FIELDS))
    word = LAYOUT[next(iter(decision))][0]
    if word == "circumstances":
        return {word: unmix64(mixed) ^ mix64(CHAIN)}  # the subject is 0
    return {word: unmix64(unmix64(mixed)) ^ CHAIN}  # the circumstances are 0


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_has_its_own_bits(field):
    word, low, width = LAYOUT[field]
    for bit in range(width):
        assert words(**{field: 1 << bit}) == {word: 1 << low + bit}, bit


def test_the_fields_fill_both_words_and_do_not_overlap():
    for word in ("subject", "circumstances"):
        bits = [low + i for w, low, width in LAYOUT.values() if w == word for i in range(width)]
        assert sorted(bits) == list(range(64))


def test_what_does_not_fit_is_cut_off():
    assert words(task_id=1 << 32 | 5) == {"subject": 5}
    assert words(nursery_id=1 << 32 | 5) == {"subject": 5 << 32}
    assert words(generation=1 << 28 | 5) == {"circumstances": 5 << 36}


def test_the_first_difference_stays_visible():
    a = link(CHAIN, 1, 1, 3, 0, 0, 16, 1)
    b = link(CHAIN, 2, 1, 3, 0, 0, 16, 1)
    for generation in range(1000):
        assert a != b
        a, b = (link(c, 7, 1, 3, 0, 0, 16, generation) for c in (a, b))


def test_the_order_of_two_decisions_matters():
    first, second = (1, 1, 3, 0, 0, 16, 1), (2, 1, 3, 0, 0, 16, 1)
    assert link(link(CHAIN, *first), *second) != link(link(CHAIN, *second), *first)


@pytest.mark.parametrize(
    ("chain", "text"), [(0, "0" * 16), (0xAB, "00000000000000ab"), (MASK64, "f" * 16)], ids=["zero", "short", "full"]
)
def test_a_fingerprint_is_sixteen_digits(chain, text):
    assert fingerprint(chain) == text


def run(kernel: Kernel, tasks: int = 6, polls: int = 60) -> list[tuple]:
    """Yield round and round; every decision as (number, chain, fields)."""
    seen = []

    def observe(kind, task, detail):
        if kind == "scheduler_step_decision":
            lane, worker, streak, limit = detail
            fields = (task.id, task.nursery.id, lane, worker, streak, limit, task.generation)
            seen.append((kernel.decisions, kernel.chain, fields))

    kernel.observer = observe
    for _ in range(tasks):
        kernel.spawn(kernel.root)
    while len(seen) < polls:
        task = kernel.step()
        if task is not None:
            kernel.yielded(task)
            kernel.step_over(task)
    return seen


def test_every_decision_has_the_next_number_and_the_chain_so_far():
    kernel = Kernel(seed=3, workers=3)
    chain = kernel.chain
    assert chain == seed_chain(3, 3)
    for number, (seen_number, seen_chain, fields) in enumerate(run(kernel), start=1):
        chain = link(chain, *fields)
        assert (seen_number, seen_chain) == (number, chain)


def test_equal_inputs_make_equal_chains_and_others_do_not():
    def chain(**keywords):
        kernel = Kernel(**keywords)
        run(kernel)
        return kernel.chain

    assert chain(seed=1, workers=4) == chain(seed=1, workers=4)
    assert len({chain(seed=seed, workers=workers) for seed, workers in product(range(5), range(1, 6))}) == 25


# ---- streams


@pytest.mark.parametrize(
    ("seed", "purpose", "values"),
    [
        (0, 0, [0x568A9B0B1A2C05EC, 0x44E5B8B147EF718B, 0x458563AB55521133]),
        (0, 1, [0x6EC85F1F8547BC0C, 0x6CF63AFCC21A470A, 0x8A27B94CFF7526AA]),
        (0, -1, [0x695058899520CA9D, 0x2C4E71FF4DF252D1, 0x1A9CCD1AD1B40609]),
        (0, -2, [0xC653BA12D6F623B8, 0x291123270E83135B, 0xD322F7B9F7FFF8C8]),
        (42, 1, [0x33AA906D7B87BF0E, 0xDF307A5B580BBDC1, 0x90B9D87798187A7E]),
    ],
)
def test_the_first_numbers_of_a_stream(seed, purpose, values):  # worked
    stream = RandomStream(seed, purpose)
    assert [stream.next() for _ in values] == values


def test_numbers_below_ten():  # worked
    stream = RandomStream(0, 0)
    assert [stream.below(10) for _ in range(12)] == [3, 2, 2, 4, 5, 4, 0, 2, 4, 2, 7, 9]


def test_streams_of_other_seeds_or_purposes_have_nothing_in_common():
    drawn = set()
    for seed, purpose in product(range(10), range(-2, 8)):
        stream = RandomStream(seed, purpose)
        drawn.update(stream.next() for _ in range(100))
    assert len(drawn) == 10 * 10 * 100


@pytest.mark.usefixtures("python_law")
def test_one_more_draw_in_one_place_does_not_shift_the_draws_of_another():
    quiet, busy = Kernel(seed=5, workers=3), Kernel(seed=5, workers=3)
    for _ in range(1000):
        busy.choices.next()
        busy.workers[1].stream.next()
    assert busy.entropy.next() == quiet.entropy.next()
    assert busy.workers[0].stream.next() == quiet.workers[0].stream.next()
    assert busy._rounds.next() == quiet._rounds.next()


@pytest.mark.usefixtures("python_law")
def test_which_stream_a_kernel_uses_for_what():
    kernel = Kernel(seed=5, workers=3)
    streams = [kernel.entropy, kernel.choices, kernel._rounds, *(worker.stream for worker in kernel.workers)]
    assert [stream.next() for stream in streams] == [
        RandomStream(5, purpose).next() for purpose in (-2, -1, 0, 1, 2, 3)
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 4095])
def test_a_number_below_n_is_below_n_and_any_of_them_comes_up(n):
    stream = RandomStream(1, 2)
    drawn = [stream.below(n) for _ in range(20 * n)]
    assert set(drawn) == set(range(n)) if n < 100 else min(drawn) >= 0
    assert max(drawn) < n


def test_small_ranges_are_drawn_evenly():
    stream = RandomStream(1, 2)
    counts = [0] * 6
    for _ in range(60_000):
        counts[stream.below(6)] += 1
    assert all(abs(count - 10_000) < 500 for count in counts)
