"""Workloads that Bursar, asyncio, trio and a bare loop run side by side: `python -m benchmarks`."""
