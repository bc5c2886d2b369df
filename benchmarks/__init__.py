"""What is measured from a checkout: `python -m benchmarks`. The workloads of its first table live in `bursar.bench`."""
