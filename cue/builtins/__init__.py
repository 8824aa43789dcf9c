"""Functions of CUE: those without a package, and the packages that the reader has."""

from __future__ import annotations

from typing import Final

from cue.builtins.core import CORE
from cue.builtins.encoding import JSON, YAML
from cue.builtins.function import (
    Constant,
    Failed,
    Function,
    Numeric,
    Package,
    Plain,
    Refused,
)
from cue.builtins.lists import LIST, STRUCT
from cue.builtins.math import MATH
from cue.builtins.net import NET
from cue.builtins.regexp import REGEXP
from cue.builtins.strings import STRINGS
from cue.builtins.time import TIME

PACKAGES: Final[dict[str, Package]] = {
    "encoding/json": JSON,
    "encoding/yaml": YAML,
    "list": LIST,
    "math": MATH,
    "net": NET,
    "regexp": REGEXP,
    "strings": STRINGS,
    "struct": STRUCT,
    "time": TIME,
}

__all__ = [
    "CORE",
    "PACKAGES",
    "Constant",
    "Failed",
    "Function",
    "Numeric",
    "Package",
    "Plain",
    "Refused",
]
