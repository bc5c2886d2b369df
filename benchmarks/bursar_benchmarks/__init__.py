"""The workloads that Bursar and its peers run side by side: what `bursar bench` and `make bench` measure.

An install has this folder as `bursar_benchmarks`, and that is the name to import it by. It uses Bursar as any program
does, by its public names. `harness.py`
says how a figure comes about, `cases.py` lists the workloads, each of which is one file with one function per peer.
"""

NAMES = ("spawn_join", "yields", "channel", "parked", "cancel", "deep", "timers", "skynet", "submit", "native")
"""What can be asked for. Here, so that the command line knows the names without importing what they stand for."""
