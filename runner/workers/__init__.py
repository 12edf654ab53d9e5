"""Worker processes and actors: their pool, connections, messages and status."""
