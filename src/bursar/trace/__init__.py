"""Traces: the events of a run, and the files that hold them."""
