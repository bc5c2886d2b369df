"""Takes one sample in its own process.

`python -m bursar_benchmarks.child HOME CASE PEER SIZE RUNS` takes the sample and prints it as one line of JSON. Three
things need an own process: the measurement of resident memory, a heap that no earlier run has fragmented, and a peer
that may crash. If it crashes, its row says so and the other peers go on. The child first does one small run that is not
counted, because the first pass through any code is slower than all later ones.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict

from bursar_benchmarks.harness import Case, Sample, WrongCount, root_cause, sample


def environment() -> dict[str, str]:
    """The environment of the child: it can import what this process can import."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def sample_in_child(case: Case, peer: str, size: int, runs: int = 1) -> Sample:
    """Start the child and read its sample. If the child hangs or dies, the sample says so."""
    command = [sys.executable, "-m", "bursar_benchmarks.child", case.home, case.name, peer, str(size), str(runs)]
    try:
        child = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=case.timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Sample(0.0, error=f"no answer within {case.timeout_s} s")
    if child.returncode != 0:
        said = child.stderr.strip().rsplit("\n", 1)[-1]
        if said.startswith(f"{WrongCount.__module__}.{WrongCount.__name__}"):
            raise WrongCount(said)
        return Sample(0.0, error=f"the child ended with {child.returncode}: {said}")
    return Sample(**json.loads(child.stdout.rsplit("\n", 2)[-2]))


def answer(case: Case, peer: str, size: int, runs: int) -> Sample:
    """Warm up, then take the sample; what a peer raises becomes the error of the sample."""
    try:
        if case.tiny < size:
            sample(case, peer, case.tiny)
        return sample(case, peer, size, runs)
    except WrongCount:
        raise
    except Exception as error:
        return Sample(0.0, error=root_cause(error))


def main() -> None:
    home, name, peer, size, runs = sys.argv[1:]
    case: Case = importlib.import_module(home).find(name)
    print(json.dumps(asdict(answer(case, peer, int(size), int(runs)))))


if __name__ == "__main__":
    main()
