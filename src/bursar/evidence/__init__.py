"""Evidence: what can be done with the trace of a run. Verification, replay, comparison, export.

`law.chain` computes the decision chain, `law.dispatch` calls the observer, and `bursar.trace` records. This package
only reads traces, and no run needs it.
"""
