"""What every test has: a process of its own, as far as that remembers secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernel.redaction import known_secrets


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """What a test resolves, a user `partita` say, is not masked in the next one's texts."""
    known, redactor = dict(known_secrets._known), known_secrets._redactor
    yield
    known_secrets._known, known_secrets._redactor = known, redactor
