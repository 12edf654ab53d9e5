"""What several operators are built on."""
