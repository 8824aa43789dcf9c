"""The verbs of `partita suite`, a module for each topic."""
