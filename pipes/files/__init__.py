"""What is in files: compression, archives, encodings."""
