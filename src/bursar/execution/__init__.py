"""How tasks run: coroutines here; threads and native fibers are rooms of their own (`thread`, `native`)."""
