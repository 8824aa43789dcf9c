"""Reads of the orchestrator's rows."""
