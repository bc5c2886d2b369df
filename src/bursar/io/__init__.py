"""Files, sockets, streams, servers, signals and processes, as a task uses them."""
