"""The native engine beside its peers: `python -m benchmarks.native`, or `make bench-native`."""
