"""What several test folders share: a runtime that checks itself at every step, program generators, fairness bounds.

Tests reach internals of the package through the modules that `FACES` names, so that a move in `src/bursar` changes a
few lines here and no test. The rule, which tests/project/test_imports.py checks:

- A file of tests imports what is public (`PUBLIC`), from a face, or from the module that it mirrors: `test_pump.py` and
  `test_pump_ends.py` mirror `pump.py`.
- A face has one line for each internal module, and no other code. A name that a second test file needs is added there.

Rejected: every test file imports what it tests (each move broke most of them); one face for everything (a name such as
`Task` means one thing in the law and another in the kernel that runs).
"""

from typing import Final

FACES: Final = ("law", "admission", "kernel", "hosts", "requests", "evidence", "workflow")

PUBLIC: Final = (
    "bursar",
    "bursar.errors",
    "bursar.workflow",
    "bursar.asyncio",
    "bursar.browser",
    "bursar._native",  # not public, but it has one place for ever
)
