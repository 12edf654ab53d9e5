"""Profiles: the measured times of steps, and the bottleneck."""
