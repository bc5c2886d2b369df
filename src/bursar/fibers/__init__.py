"""C functions as tasks, on the native workers, without the interpreter."""
