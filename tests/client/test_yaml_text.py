"""The client's own YAML is read back equal by PyYAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from partita_client.command.yaml_text import yaml_text

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["yes", "no", "1e3", "0x1f", "12:30:00", "2026-01-01", "", "null", "~", "<<"]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), TEXTS, st.floats(allow_nan=False, allow_infinity=False)
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_a_document_is_read_back_equal(document: Any):
    assert yaml.safe_load(yaml_text(document)) == document


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"steps": [{"id": "a", "ok": True}]}, "steps:\n- id: a\n  ok: true\n"),
        ({"empty": [], "none": {}}, "empty: []\nnone: {}\n"),
        ({"text": "two\nlines", "no": "no"}, 'text: "two\\nlines"\n"no": "no"\n'),
    ],
)
def test_it_reads_as_people_write_it(document: Any, text: str):
    assert yaml_text(document) == text
