"""The benchmarks of the README: each module prints one table, `python -m benchmarks.<name>`."""
