"""What the README measures: each module here prints one table, `python -m benchmarks.<name>`."""
