"""Hostile programs come to the same on both kernels: the same log, ending, reports and fingerprint."""

from pathlib import Path

import pytest
from fuzz import campaign, hostile
from support.kernel import KERNEL_VARIABLE, NativeKernel

pytestmark = pytest.mark.skipif(NativeKernel is None, reason="the native kernel was not built")

SCRIPT = Path(hostile.__file__)
KERNELS = {kernel: {KERNEL_VARIABLE: kernel} for kernel in ("python", "native")}


def test_hostile_programs_come_to_the_same():
    found = campaign.compare(SCRIPT, 0, campaign.SHORT, KERNELS)
    endings = {result["ending"].partition(":")[0] for result in found.values()}
    assert endings >= {"ok", "ExceptionGroup", "Deadlock"}
    said = {line.partition(" ")[2] for result in found.values() for line in result["log"]}
    assert said >= {action.__name__ for action in hostile.ACTIONS}, "an action is never tried"
    assert said >= {"finalizer", "generator closed", "cleans up"}
    reported = {kind for result in found.values() for kind, _ in result["reports"]}
    assert reported >= {"cancel_swallowed", "obligation_leaked"}


@pytest.mark.slow
@pytest.mark.timeout(campaign.CAMPAIGN_S)
def test_thousands_of_hostile_programs_come_to_the_same():
    campaign.compare(SCRIPT, campaign.SHORT, campaign.SHORT + campaign.LONG, KERNELS)


def test_a_difference_is_found(tmp_path):
    script = tmp_path / "differs.py"
    script.write_text("import json, os\nprint(json.dumps({7: os.environ['VARIANT']}))\n")
    with pytest.raises(AssertionError, match=r"differs.py: seeds with different results: \['7'\]"):
        campaign.compare(script, 7, 8, {name: {"VARIANT": name} for name in ("one", "two")})


def test_a_crash_is_found(tmp_path):
    script = tmp_path / "crashes.py"
    script.write_text("import os\nos.abort()\n")
    with pytest.raises(AssertionError, match="ended with -6"):
        campaign.compare(script, 0, 1, {"one": {}})
