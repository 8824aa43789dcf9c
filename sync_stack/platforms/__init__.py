"""Git platforms, a module for each family (port: `sync_stack/core/git_platform.py`)."""
