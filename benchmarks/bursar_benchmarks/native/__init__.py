"""The native engine beside its peers: `python -m bursar_benchmarks.native`, or `make bench-native`."""
