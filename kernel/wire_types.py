"""Types of the members of documents on the wire, for what Python's own types leave unsaid.

In `Annotated`, a text describes the member and `keywords` adds to its schema:
`Annotated[Count, "bytes"]`, `Annotated[str, one_of(Color)]`. The OpenAPI document is made from both
(decision 0065); nothing is validated by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

Keywords: TypeAlias = frozenset[tuple[str, object]]


def keywords(**schema: object) -> Keywords:
    """Return keywords of JSON Schema with their values, which can be hashed as types must be."""
    return frozenset(schema.items())


def one_of(values: Iterable[str]) -> Keywords:
    """Return the keyword of a text that is one of these; an enumeration gives its values."""
    return keywords(enum=tuple(str(each) for each in values))


Count: TypeAlias = Annotated[int, keywords(minimum=0)]
Ordinal: TypeAlias = Annotated[int, keywords(minimum=1)]
Percentage: TypeAlias = Annotated[int, keywords(minimum=0, maximum=100)]
Instant: TypeAlias = Annotated[str, keywords(format="date-time")]
Uuid: TypeAlias = Annotated[str, keywords(format="uuid")]
