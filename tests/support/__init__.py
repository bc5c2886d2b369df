"""What several test folders share: a runtime that checks itself at every step, program generators, fairness bounds.

The folders that use it put `tests/` on the path in their conftest, because pytest's importlib mode does not.
"""
