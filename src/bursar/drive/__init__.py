"""Drives a run: the host calls the pump, the pump runs batches, and the driver polls one task at a time."""
