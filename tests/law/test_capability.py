"""Capabilities: only what was minted counts, derivation only narrows, uses add up, revocation cascades."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from support.kernel import Kernel
from support.law import UNSTATED, Nursery, Task, root_pools

from bursar import Budget, CapabilityDenied, CapabilityForged, CapabilityRevoked
from bursar.law.capability import (
    DEPTH_MAX,
    CapBudget,
    CapChannel,
    CapClock,
    CapEntropy,
    CapExecutor,
    CapIO,
    CapSpawn,
    CapTimer,
    Registry,
    delegate,
    inheritable,
    require,
)

KINDS = (CapSpawn, CapBudget, CapChannel, CapExecutor, CapClock, CapTimer, CapEntropy, CapIO)


@pytest.fixture
def registry() -> Registry:
    return Registry()


def task(id: int = 7, name: str = "worker", **capabilities) -> Task:
    pools = root_pools(UNSTATED)
    held = {type(c): c for c in capabilities.values()}
    return Task(id, name, Nursery(1, "n", None, pools, pools, {}), pools, held)


# ---- minting


@pytest.mark.parametrize("kind", KINDS)
def test_a_constructed_capability_is_only_a_description(registry, kind):
    description = kind()
    assert description._seal is None
    assert description.minted is False
    with pytest.raises(CapabilityForged, match="not minted by this runtime"):
        registry.authenticate(description)


@pytest.mark.parametrize("kind", KINDS)
def test_a_minted_one_is_real_and_may_be_passed_on(registry, kind):
    capability = registry.mint(kind())
    registry.authenticate(capability)
    assert (type(capability), capability.minted, capability.delegable) == (kind, True, True)
    assert (capability._seal.parent, capability._seal.depth, capability._seal.deriver) == (None, 0, 0)


def test_minting_keeps_the_limits_and_leaves_the_description_alone(registry):
    description = CapSpawn(max_tasks=3, task_budget=Budget(ops=5))
    capability = registry.mint(description)
    assert (capability.max_tasks, capability.task_budget) == (3, Budget(ops=5))
    assert description.minted is False


def test_what_is_minted_is_not_minted_again(registry):
    with pytest.raises(CapabilityForged, match="minted already"):
        registry.mint(registry.mint(CapClock()))


def test_every_minted_capability_is_one_of_its_own(registry):
    a, b = registry.mint(CapClock()), registry.mint(CapClock())
    assert a != b
    assert a._seal.serial != b._seal.serial


def test_another_runtime_does_not_recognise_it(registry):
    foreign = Registry().mint(CapClock())
    assert registry.minted(foreign) is False
    with pytest.raises(CapabilityForged):
        registry.authenticate(foreign)
    with pytest.raises(CapabilityForged):
        registry.revoke(foreign)


# ---- forging


@pytest.mark.parametrize("kind", KINDS)
def test_no_constructor_takes_a_seal(registry, kind):
    seal = registry.mint(kind())._seal
    with pytest.raises(TypeError):
        kind(seal=seal)


def test_a_widened_replacement_is_not_real(registry):
    capability = registry.mint(CapSpawn(max_tasks=1))
    forged = replace(capability, max_tasks=1000)
    assert forged.minted is False
    with pytest.raises(CapabilityForged):
        registry.authenticate(forged)
    with pytest.raises((ValueError, TypeError), match="seal"):  # TypeError from Python 3.13 on
        replace(capability, max_tasks=1000, seal=capability._seal)


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_can_be_assigned(registry, kind):
    capability = registry.mint(kind())
    for field in fields(capability):
        with pytest.raises(FrozenInstanceError):
            setattr(capability, field.name, None)


def test_a_copy_is_no_second_capability(registry):
    """It has the same number, so it is counted with the original and revoked with it."""
    capability = registry.mint(CapSpawn(max_tasks=1))
    twin = copy.copy(capability)
    registry.acquire(None, capability, "max_tasks", "spawn")
    with pytest.raises(CapabilityDenied, match="used up"):
        registry.acquire(None, twin, "max_tasks", "spawn")
    registry.revoke(capability)
    with pytest.raises(CapabilityRevoked):
        registry.authenticate(twin)


def test_a_copy_of_what_somebody_else_holds_cannot_be_delegated(registry):
    mine, other = registry.mint(CapClock()), registry.mint(CapClock())
    with pytest.raises(CapabilityDenied, match="holds neither this"):
        delegate(registry, task(a=mine), {CapClock: mine}, [copy.copy(other)])


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))], ids=["deepcopy", "pickle"])
def test_a_deep_copy_belongs_to_no_runtime(registry, twin):
    forged = twin(registry.mint(CapSpawn()))
    with pytest.raises(CapabilityForged):
        registry.authenticate(forged)
    with pytest.raises(CapabilityForged):
        registry.acquire(None, forged, "max_tasks", "spawn")


def test_a_description_cannot_be_attenuated():
    with pytest.raises(CapabilityForged, match="never minted"):
        CapSpawn(max_tasks=10).attenuate(max_tasks=1)


def test_a_lookalike_is_not_a_capability(registry):
    class Lookalike:
        seal = registry.mint(CapClock())._seal

    with pytest.raises(CapabilityForged, match="not a capability"):
        delegate(registry, None, {}, [Lookalike()])


# ---- attenuation

B = Budget
MATRIX = [  # kind, limit, parent's value, value asked for, allowed
    (CapSpawn, "max_tasks", 5, 5, True),
    (CapSpawn, "max_tasks", 5, 4, True),
    (CapSpawn, "max_tasks", 5, 0, True),
    (CapSpawn, "max_tasks", 5, 6, False),
    (CapSpawn, "max_tasks", 5, None, False),
    (CapSpawn, "max_tasks", 0, 1, False),
    (CapSpawn, "max_tasks", None, 10**6, True),
    (CapSpawn, "max_tasks", None, None, True),
    (CapSpawn, "task_budget", B(ops=5), B(ops=5), True),
    (CapSpawn, "task_budget", B(ops=5), B(ops=4, memory=1), True),
    (CapSpawn, "task_budget", B(ops=5), B(ops=6), False),
    (CapSpawn, "task_budget", B(ops=5), B(memory=1), False),
    (CapSpawn, "task_budget", B(ops=5), None, False),
    (CapSpawn, "task_budget", None, B(ops=6), True),
    (CapBudget, "limits", B(ops=5, memory=5), B(ops=1, memory=5), True),
    (CapBudget, "limits", B(ops=5, memory=5), B(ops=1, memory=6), False),
    (CapBudget, "limits", B(ops=5, memory=5), B(), False),
    (CapBudget, "limits", B(), B(ops=1), True),
    (CapChannel, "max_channels", 5, 4, True),
    (CapChannel, "max_channels", 5, 6, False),
    (CapChannel, "max_channels", 5, None, False),
    (CapChannel, "max_buffer", 5, 4, True),
    (CapChannel, "max_buffer", 5, 6, False),
    (CapChannel, "max_buffer", None, 6, True),
    (CapExecutor, "backends", frozenset("ab"), frozenset("a"), True),
    (CapExecutor, "backends", frozenset("ab"), frozenset(), True),
    (CapExecutor, "backends", frozenset("ab"), frozenset("ab"), True),
    (CapExecutor, "backends", frozenset("ab"), frozenset("abc"), False),
    (CapExecutor, "backends", frozenset("ab"), frozenset("c"), False),
]


@pytest.mark.parametrize(("kind", "limit", "outer", "inner", "allowed"), MATRIX)
def test_a_derived_limit_is_never_wider(registry, kind, limit, outer, inner, allowed):
    parent = registry.mint(kind(**{limit: outer}))
    if allowed:
        assert getattr(parent.attenuate(**{limit: inner}), limit) == inner
        return
    with pytest.raises(CapabilityDenied, match="can only be attenuated"):
        parent.attenuate(**{limit: inner})


def test_what_is_not_mentioned_stays(registry):
    parent = registry.mint(CapSpawn(max_tasks=5, task_budget=Budget(ops=9)))
    child = parent.attenuate(max_tasks=2)
    assert (child.max_tasks, child.task_budget) == (2, Budget(ops=9))


def test_narrowing_is_cumulative(registry):
    child = registry.mint(CapSpawn(max_tasks=5)).attenuate(max_tasks=2)
    with pytest.raises(CapabilityDenied):
        child.attenuate(max_tasks=3)


def test_an_unknown_limit_is_a_mistake_of_the_caller(registry):
    with pytest.raises(TypeError, match="CapSpawn has no colour"):
        registry.mint(CapSpawn()).attenuate(colour="red")
    with pytest.raises(TypeError, match="CapClock has no seal"):
        registry.mint(CapClock()).attenuate(seal=None)


@pytest.mark.parametrize(
    ("parents", "asked", "given"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_only_a_delegable_one_has_delegable_children(registry, parents, asked, given):
    parent = registry.mint(CapClock()).attenuate(delegable=parents)
    assert parent.delegable is parents
    assert parent.attenuate(delegable=asked).delegable is given


def test_a_derived_one_is_not_delegable_unless_that_is_said(registry):
    assert registry.mint(CapClock()).attenuate().delegable is False


def test_a_derived_one_remembers_its_line_and_its_deriver(registry):
    root = registry.mint(CapClock())
    registry.current = task(id=42)
    child = root.attenuate()
    registry.current = None
    grandchild = child.attenuate()
    assert list(grandchild.ancestors()) == [grandchild, child, root]
    assert [c._seal.depth for c in (root, child, grandchild)] == [0, 1, 2]
    assert [c._seal.deriver for c in (root, child, grandchild)] == [0, 42, 0]


def test_a_line_of_derivations_has_a_greatest_length(registry):
    capability = registry.mint(CapClock())
    for _ in range(DEPTH_MAX):
        capability = capability.attenuate(delegable=True)
    assert capability._seal.depth == DEPTH_MAX
    with pytest.raises(CapabilityDenied, match=f"{DEPTH_MAX} derivations deep"):
        capability.attenuate()


# ---- requiring


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_is_found(registry, kind):
    capability = registry.mint(kind())
    assert require(task(), {kind: capability}, kind, "do it") is capability


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_capability_names_task_capability_and_operation(kind):
    with pytest.raises(CapabilityDenied, match=rf"'worker' \(7\) may not do it: it holds no {kind.__name__}"):
        require(task(), {}, kind, "do it")


def test_holding_everything_else_is_no_help(registry):
    for kind in KINDS:
        others = {k: registry.mint(k()) for k in KINDS if k is not kind}
        with pytest.raises(CapabilityDenied, match=kind.__name__):
            require(task(), others, kind, "do it")


def test_code_outside_any_task_is_named_as_such():
    with pytest.raises(CapabilityDenied, match="code outside any task may not do it"):
        require(None, {}, CapClock, "do it")


def test_a_revoked_one_is_as_good_as_none(registry):
    capability = registry.mint(CapClock())
    registry.revoke(capability)
    with pytest.raises(CapabilityRevoked, match=r"'worker' \(7\) may not do it: its CapClock has been revoked"):
        require(task(), {CapClock: capability}, CapClock, "do it")


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_in_the_place_of_a_capability_does_not_pass(kind):
    """CAPABILITY-3: nothing that was not minted passes `require`."""
    with pytest.raises(CapabilityForged):
        require(task(), {kind: kind()}, kind, "do it")


def test_every_denial_is_one_kind_of_error():
    assert issubclass(CapabilityForged, CapabilityDenied)
    assert issubclass(CapabilityRevoked, CapabilityDenied)


# ---- revocation


def test_revoking_takes_back_all_that_was_derived(registry):
    root = registry.mint(CapClock())
    line = [root]
    for _ in range(DEPTH_MAX):
        line.append(line[-1].attenuate(delegable=True))
    registry.revoke(line[3])
    assert [registry.revoked(c) for c in line] == [False] * 3 + [True] * (DEPTH_MAX - 2)


def test_revoking_one_branch_leaves_the_other(registry):
    root = registry.mint(CapClock())
    left, right = root.attenuate(delegable=True), root.attenuate(delegable=True)
    registry.revoke(left)
    assert registry.revoked(left)
    registry.authenticate(right)
    registry.authenticate(root)


def test_a_revoked_one_cannot_be_attenuated(registry):
    root = registry.mint(CapClock())
    child = root.attenuate(delegable=True)
    registry.revoke(root)
    for capability in (root, child):
        with pytest.raises(CapabilityRevoked):
            capability.attenuate()


def test_revoking_twice_is_harmless(registry):
    capability = registry.mint(CapClock())
    registry.revoke(capability)
    registry.revoke(capability)
    assert registry.revoked(capability)


def test_a_task_revokes_what_it_derived_and_nothing_else(registry):
    root = registry.mint(CapClock())
    deriver, stranger = task(id=3, name="deriver"), task(id=4, name="stranger")
    registry.current = deriver
    derived = root.attenuate()
    for capability, by in ((derived, stranger), (root, deriver), (root, stranger)):
        with pytest.raises(CapabilityDenied, match=f"'{by.name}' did not derive"):
            registry.revoke(capability, by=by)
    assert not registry.revoked(derived)
    registry.revoke(derived, by=deriver)
    assert registry.revoked(derived)


def test_what_was_granted_before_stays_counted_and_can_be_given_back(registry):
    capability = registry.mint(CapSpawn(max_tasks=2))
    registry.acquire(None, capability, "max_tasks", "spawn")
    registry.revoke(capability)
    assert registry.in_use(capability) == 1
    registry.release(capability)
    assert registry.in_use(capability) == 0


# ---- counting uses


def test_uses_are_counted_and_limited(registry):
    capability = registry.mint(CapSpawn(max_tasks=2))
    registry.acquire(None, capability, "max_tasks", "spawn")
    registry.acquire(None, capability, "max_tasks", "spawn")
    with pytest.raises(CapabilityDenied, match=r"'worker' \(7\) may not spawn: CapSpawn\(max_tasks=2\) is used up"):
        registry.acquire(task(), capability, "max_tasks", "spawn")
    registry.release(capability)
    registry.acquire(None, capability, "max_tasks", "spawn")
    assert registry.in_use(capability) == 2


def test_no_limit_still_counts(registry):
    capability = registry.mint(CapSpawn())
    for _ in range(1000):
        registry.acquire(None, capability, "max_tasks", "spawn")
    assert registry.in_use(capability) == 1000


def test_a_limit_of_nothing_lets_nobody(registry):
    with pytest.raises(CapabilityDenied):
        registry.acquire(None, registry.mint(CapSpawn(max_tasks=0)), "max_tasks", "spawn")


def test_a_use_counts_on_every_ancestor(registry):
    root = registry.mint(CapSpawn(max_tasks=10))
    child = root.attenuate(delegable=True)
    leaf = child.attenuate()
    registry.acquire(None, leaf, "max_tasks", "spawn")
    registry.acquire(None, child, "max_tasks", "spawn")
    assert [registry.in_use(c) for c in (root, child, leaf)] == [2, 2, 1]
    registry.release(leaf)
    assert [registry.in_use(c) for c in (root, child, leaf)] == [1, 1, 0]


def test_siblings_cannot_use_more_together_than_their_parent_may(registry):
    root = registry.mint(CapSpawn(max_tasks=3))
    a, b = root.attenuate(max_tasks=2), root.attenuate(max_tasks=2)
    for capability in (a, a, b):
        registry.acquire(None, capability, "max_tasks", "spawn")
    with pytest.raises(CapabilityDenied, match="max_tasks=3"):
        registry.acquire(None, b, "max_tasks", "spawn")
    assert [registry.in_use(c) for c in (root, a, b)] == [3, 2, 1]


def test_a_thousand_derivations_do_not_multiply_a_limit(registry):
    root = registry.mint(CapSpawn(max_tasks=5))
    taken = 0
    for _ in range(1000):
        try:
            registry.acquire(None, root.attenuate(), "max_tasks", "spawn")
        except CapabilityDenied:
            continue
        taken += 1
    assert taken == 5


def test_a_refused_use_is_counted_nowhere(registry):
    root = registry.mint(CapChannel(max_channels=1))
    leaf = root.attenuate(delegable=True).attenuate()
    registry.acquire(None, root, "max_channels", "make a channel")
    with pytest.raises(CapabilityDenied):
        registry.acquire(None, leaf, "max_channels", "make a channel")
    assert registry.in_use(leaf) == 0


# ---- drawing money


def test_what_is_drawn_adds_up_to_the_limit(registry):
    capability = registry.mint(CapBudget(Budget(ops=10, memory=5)))
    registry.draw(task(), capability, Budget(ops=6))
    registry.draw(task(), capability, Budget(ops=4, memory=5))
    with pytest.raises(CapabilityDenied, match=r"may not recharge ops by 1: .* allows 10 in total and 10 are used"):
        registry.draw(task(), capability, Budget(ops=1))


def test_a_draw_is_whole_or_not_at_all(registry):
    capability = registry.mint(CapBudget(Budget(ops=10, memory=5)))
    with pytest.raises(CapabilityDenied, match="memory by 6"):
        registry.draw(task(), capability, Budget(ops=10, memory=6))
    registry.draw(task(), capability, Budget(ops=10, memory=5))


def test_a_draw_counts_on_every_ancestor(registry):
    root = registry.mint(CapBudget(Budget(ops=10)))
    a, b = root.attenuate(limits=Budget(ops=8)), root.attenuate(limits=Budget(ops=8))
    registry.draw(task(), a, Budget(ops=8))
    with pytest.raises(CapabilityDenied, match="ops by 3"):
        registry.draw(task(), b, Budget(ops=3))
    registry.draw(task(), b, Budget(ops=2))
    with pytest.raises(CapabilityDenied):
        registry.draw(task(), root, Budget(ops=1))


def test_a_draw_that_an_ancestor_refuses_is_counted_nowhere(registry):
    root = registry.mint(CapBudget(Budget(ops=5)))
    leaf = root.attenuate(limits=Budget(ops=5))
    registry.draw(task(), root, Budget(ops=4))
    with pytest.raises(CapabilityDenied):
        registry.draw(task(), leaf, Budget(ops=2))
    registry.draw(task(), leaf, Budget(ops=1))


def test_a_limit_that_is_not_stated_is_none(registry):
    capability = registry.mint(CapBudget(Budget(ops=1)))
    registry.draw(task(), capability, Budget(memory=10**12))


# ---- inheritance and delegation


def test_everything_is_inherited_but_the_right_to_recharge(registry):
    held = {kind: registry.mint(kind()) for kind in KINDS}
    assert inheritable(held) == {kind: c for kind, c in held.items() if kind is not CapBudget}
    assert CapBudget in held


def test_without_that_right_the_set_is_passed_on_as_it_is(registry):
    held = {CapClock: registry.mint(CapClock())}
    assert inheritable(held) is held


def test_what_is_held_and_delegable_can_be_passed_on(registry):
    mine = registry.mint(CapClock())
    assert delegate(registry, task(a=mine), {CapClock: mine}, [mine]) == {CapClock: mine}


def test_what_was_derived_from_it_can_be_passed_on(registry):
    mine = registry.mint(CapSpawn(max_tasks=5))
    narrow = mine.attenuate(delegable=True).attenuate(max_tasks=1)
    assert delegate(registry, task(a=mine), {CapSpawn: mine}, [narrow]) == {CapSpawn: narrow}


def test_only_what_is_named_is_passed_on(registry):
    held = {kind: registry.mint(kind()) for kind in KINDS}
    assert delegate(registry, task(), held, []) == {}
    assert delegate(registry, task(), held, [held[CapClock], held[CapIO]]).keys() == {CapClock, CapIO}


def test_what_is_not_held_cannot_be_passed_on(registry):
    with pytest.raises(CapabilityDenied, match=r"'worker' \(7\) may not delegate .* holds neither this"):
        delegate(registry, task(), {}, [registry.mint(CapClock())])


def test_a_wider_relative_cannot_be_passed_on(registry):
    """Holding a child of a capability is not holding the capability, nor its other children."""
    root = registry.mint(CapSpawn(max_tasks=100))
    mine, sibling = root.attenuate(max_tasks=1, delegable=True), root.attenuate(max_tasks=50, delegable=True)
    for wider in (root, sibling):
        with pytest.raises(CapabilityDenied, match="holds neither this"):
            delegate(registry, task(a=mine), {CapSpawn: mine}, [wider])


def test_what_was_given_without_the_right_to_pass_it_on_stays(registry):
    mine = registry.mint(CapClock()).attenuate()
    for passed in (mine, mine.attenuate(delegable=True)):
        with pytest.raises(CapabilityDenied, match="without delegable=True"):
            delegate(registry, task(a=mine), {CapClock: mine}, [passed])


def test_a_description_cannot_be_passed_on(registry):
    mine = registry.mint(CapClock())
    for held in ({CapClock: mine}, {}):
        with pytest.raises(CapabilityForged):
            delegate(registry, task(), held, [CapClock()])


def test_a_revoked_one_cannot_be_passed_on(registry):
    mine = registry.mint(CapClock())
    registry.revoke(mine)
    with pytest.raises(CapabilityRevoked):
        delegate(registry, task(a=mine), {CapClock: mine}, [mine])


def test_one_bad_capability_refuses_the_whole_set(registry):
    held = {CapClock: registry.mint(CapClock())}
    with pytest.raises(CapabilityForged):
        delegate(registry, task(), held, [held[CapClock], CapIO()])


def test_the_runtime_itself_passes_on_what_it_minted(registry):
    minted = registry.mint(CapClock())
    assert delegate(registry, None, {}, [minted]) == {CapClock: minted}


def test_a_kernel_hands_no_task_what_another_runtime_minted():
    """CAPABILITY-3, where capabilities enter: the first task of a runtime."""
    foreign = Registry().mint(CapClock())
    kernel = Kernel()
    with pytest.raises(CapabilityForged):
        kernel.spawn(kernel.root, capabilities=[foreign])
