"""File contents: compression, archives, encodings."""
