"""Calls and their outcomes, names of spaces, and the ports of the engine."""
