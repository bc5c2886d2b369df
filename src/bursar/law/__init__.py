"""The law of Bursar in plain Python: pure, deterministic, and the specification of the law in C.

The law has no clock, no input or output, no thread, and no randomness but seeded streams. It imports nothing of Bursar
but `bursar.errors` and `bursar.text`.

Read in this order: `state`, `task`, `wake`, `lanes`, `decide`, `steal`, `chain`, `dispatch`; then `budget`,
`capability`, `ledger`; then `nursery`, `cancel`, `obligation`, `timers`, `permission`, `kernel`; then `admission`; last
`invariants`.
"""
