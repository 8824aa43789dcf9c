"""Invented names, addresses and the like, by the library Faker."""

from __future__ import annotations

import random
import re
from functools import cache
from importlib import import_module
from typing import Any, Final

_CAPITAL: Final = re.compile("[A-Z]")


@cache
def open_generator() -> Any:
    """Return Faker's generator; importing it takes half a second, so who may wait opens it."""
    return import_module("faker").Faker("en_US")["en_US"]


def invent_value(kind: str, rng: random.Random) -> str | bool:
    """Return a value of a kind of `template_expressions.FAKER`; equal draws give equal values."""
    generator = open_generator()
    generator.random = rng
    made: Any = getattr(generator, _CAPITAL.sub(lambda at: f"_{at[0].lower()}", kind))()
    return made if isinstance(made, bool) else str(made)
