"""One pass over a chain: how it runs, is seeded, saved and resumed, and the graph that it runs over."""
