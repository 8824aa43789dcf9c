"""The formats of configuration files, one module each (port: `sync_stack/core/formats.py`)."""
