"""Replay: a recorded run again, with the trace in the place of the world."""
