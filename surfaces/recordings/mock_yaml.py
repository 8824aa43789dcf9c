"""Mock files as YAML that the core schema reads as it was meant."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9 _./@-]*[A-Za-z0-9/]\Z|[A-Za-z/]\Z")
_WORDS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_WIDTH: Final = 100


class _Dumper(yaml.SafeDumper):
    """Quotes each text that a reader of YAML 1.1 or 1.2 could take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    is_plain = _PLAIN.match(text) is not None and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent_text)


def yaml_text(document: Any, comment: str = "") -> str:
    """Return a document as YAML, in block style, members in their order."""
    made: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return f"# {comment}\n{made}" if comment else made
