"""Runs plain functions as tasks, on the threads of a pool; and portals, through which other threads reach a run."""
