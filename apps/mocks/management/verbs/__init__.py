"""The verbs of `partita mock`, a module for each topic.

A module has `add_verbs(command, verbs)` and `EXAMPLES`, lines of the command's `--help`.
"""
