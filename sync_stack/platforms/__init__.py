"""Git platforms, one module each (port: `sync_stack/core/git_platform.py`)."""
