"""Writes: suites that are registered and removed."""
