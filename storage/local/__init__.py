"""Files on the local disk: caches, locks, parts of files, and memory to hold what is read."""
