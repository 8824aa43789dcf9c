"""The rules of the sync stack: no framework, no I/O."""
