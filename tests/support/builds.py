"""Which parts the extension of this run was built with: tests that are about a part are skipped without it."""

import pytest

try:
    from bursar import _native
except ImportError:
    FAST_PATHS = True
else:
    FAST_PATHS = bool(_native.build_info()["fast_paths"])

needs_fast_paths = pytest.mark.skipif(not FAST_PATHS, reason="about a fast path, which this build does not take")
