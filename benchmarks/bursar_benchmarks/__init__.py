"""The workloads that Bursar and its peers run side by side: `bursar bench` and `make bench` measure them.

An install has this folder as the package `bursar_benchmarks`. It uses Bursar by its public names, as any program does.
`harness.py` says how a figure is measured. `cases.py` lists the workloads: each is one file with one function per peer.
"""

NAMES = ("spawn_join", "yields", "channel", "parked", "cancel", "deep", "timers", "skynet", "submit", "native")
"""The names of the workloads. They are here so that the command line knows them without importing the workloads."""
