"""Work in other threads, processes, actors and ranks."""
