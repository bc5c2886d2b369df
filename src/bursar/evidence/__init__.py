"""Evidence: events, trace files, verification, replay, metrics.

The room is laid out and not built. What exists of it lives in the law: the decision chain (`law.chain`), the
observer hook and the reports (`law.dispatch`). `run(record=...)` refuses until trace files exist.
"""
