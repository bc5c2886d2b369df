"""Replay: run a program again, with its trace instead of the host."""

from bursar.evidence.replay.replay_runtime import Replayed, replay

__all__ = ["Replayed", "replay"]
