"""Plain functions as tasks, on the threads of a pool; and portals, by which other threads reach a run."""
