"""How long a test waits for another thread or process. Only a hang takes that long.

A busy machine may not run a thread or a process for many seconds. A shorter limit would gain nothing: a test that
passes does not reach it, and a test that hangs fails in any case. pytest's limit for a whole test, in pyproject.toml,
is longer, so that the test can still say what happened before the hang.
"""

from typing import Final

WAIT_S: Final = 120

PAUSE_MS = "60000"  # for a task that is to pause: a thread of a busy machine may not run for seconds
