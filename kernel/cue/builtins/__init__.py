"""Functions of CUE: those without a package, and the packages that the reader has."""

from __future__ import annotations

from typing import Final

from kernel.cue.builtins.core import CORE
from kernel.cue.builtins.encoding import JSON, YAML
from kernel.cue.builtins.function import (
    Constant,
    Failed,
    Function,
    Numeric,
    Package,
    Plain,
    Refused,
)
from kernel.cue.builtins.lists import LIST, STRUCT
from kernel.cue.builtins.math import MATH
from kernel.cue.builtins.net import NET
from kernel.cue.builtins.regexp import REGEXP
from kernel.cue.builtins.strings import STRINGS
from kernel.cue.builtins.time import TIME

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
