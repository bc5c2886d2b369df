"""The law of Bursar in plain Python: pure, deterministic, and the specification of the native one.

No clock, no input or output, no thread, no randomness but seeded streams. Read in this order: `state`, `task`,
`wake`, `lanes`, `decide`, `steal`, `chain`, `dispatch`; then `budget`, `capability`, `ledger`; then `nursery`,
`cancel`, `obligation`, `timers`, `kernel`; last `invariants`. Nothing in here imports anything of Bursar but
`bursar.errors`.
"""
