"""What a task can do with the outside: files, sockets, streams, servers, signals and processes."""
