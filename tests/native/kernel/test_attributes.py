"""No attribute of a C object can crash the process: every type, half made objects, and wrong values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

import bursar
from bursar import _native

HOSTILE = Path(__file__).with_name("hostile_attributes.py")
TYPES = sorted(name for name, thing in vars(_native).items() if isinstance(thing, type))
OF_KERNEL = sorted(
    name
    for name, thing in vars(_native.Kernel).items()
    if type(thing).__name__ in ("getset_descriptor", "member_descriptor")
)


def survives(how, names):
    command = [sys.executable, str(HOSTILE), how, *names]
    native = os.environ | {"BURSAR_KERNEL": "native"}  # in Python any value is stored, and no process crashes
    done = subprocess.run(command, env=native, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-2000:]}"
    assert done.stdout.split() == list(names)


def test_an_object_without_init_survives_wrong_attributes():
    assert "Kernel" in TYPES
    survives("bare", TYPES)


def test_a_kernel_that_runs_survives_wrong_attributes():
    assert "at" in OF_KERNEL
    survives("live", OF_KERNEL)


def test_only_the_task_that_a_kernel_polls_is_its_current_task():
    kernel, other = bursar.Runtime().kernel, bursar.Runtime().kernel
    idle = kernel.spawn(kernel.root, name="idle")
    for wrong in (idle, other.spawn(other.root, name="other")):
        with pytest.raises(ValueError, match="the task that it polls, or None"):
            kernel.current = wrong
        with pytest.raises(ValueError, match="the task that it polls, or None"):
            other.current = wrong
    assert kernel.current is None
    running = kernel.step()
    assert kernel.current is running
    with pytest.raises(ValueError, match="the task that it polls"):
        other.current = running
    kernel.current = None
    kernel.current = running
    assert kernel.current is running


def test_a_kernel_without_init_says_so():
    kernel = _native.Kernel.__new__(_native.Kernel)
    with pytest.raises(RuntimeError, match="not initialized"):
        kernel.observer = None
    with pytest.raises(RuntimeError, match="not initialized"):
        kernel.step()
    with pytest.raises(RuntimeError, match="not initialized"):
        kernel.advance(5)


def test_the_worker_of_a_step_cannot_be_set():
    with pytest.raises(AttributeError):
        _native.Kernel.__new__(_native.Kernel).at = 5
