"""The verbs of `manage.py suite`, a module for each topic."""
