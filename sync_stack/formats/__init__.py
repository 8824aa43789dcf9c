"""Formats of configuration files, one module each: bytes → Tree with places and spelling, and back.

To add one: a module that calls `register(Format(...))`, named in the import below, and a row in
docs/sync-formats.md.
"""

from sync_stack.formats import env, hcl, ini, json, properties, toml, xml, yaml
from sync_stack.formats.registry import Format, by_name, detect, formats
from sync_stack.formats.writer import render, shaped_tree

__all__ = [
    "Format",
    "by_name",
    "detect",
    "env",
    "formats",
    "hcl",
    "ini",
    "json",
    "properties",
    "render",
    "shaped_tree",
    "toml",
    "xml",
    "yaml",
]
