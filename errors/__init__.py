"""What may go wrong, and what is said then: policies, notes, secrets, checks of arguments, optional imports."""
