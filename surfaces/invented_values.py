"""Invented names, addresses and the like, by the library Faker.

Importing it takes half a second: who may wait imports it first.
"""

from __future__ import annotations

import random
import re
from typing import Any, Final

from faker import Faker

_FAKER: Final = Faker("en_US")
_CAPITAL: Final = re.compile("[A-Z]")


def invent_value(kind: str, rng: random.Random) -> str | bool:
    """Return a value of a kind of `template_expressions.FAKER`; equal draws give equal values."""
    generator = _FAKER[_FAKER.locales[0]]
    generator.random = rng
    made: Any = getattr(generator, _CAPITAL.sub(lambda at: f"_{at[0].lower()}", kind))()
    return made if isinstance(made, bool) else str(made)
