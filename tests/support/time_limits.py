"""How long a test waits for what must come: another thread, a process. Only a real hang takes so long.

A busy machine may leave a thread or a process alone for many seconds. Nothing is gained by a shorter limit: a test that
passes does not wait for it, and one that hangs has failed whenever that is said. The limit of pytest for a whole test,
in pyproject.toml, is longer, so that whoever waits here can still say what came so far.
"""

from typing import Final

WAIT_S: Final = 120

PAUSE_MS = "60000"  # for a task that is to pause: a thread of a busy machine may not run for seconds
