"""The reference of the bundle is what the bundle's reader knows."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sync_stack.core.bundle.datasources import COMMON_TABLE, datasource_kinds
from sync_stack.core.bundle.model import TOP
from sync_stack.core.bundle.rules import PRUNE, RULE
from sync_stack.core.bundle.secret_managers import VAULT
from tests.support import bundle_reference

TABLES = [datasource_kinds[kind].table for kind in datasource_kinds]


@pytest.mark.parametrize("page", bundle_reference.PAGES, ids=lambda page: page.path.name)
def test_the_reference_is_up_to_date(page):
    text = page.path.read_text()

    assert page.document(text) == text, "run: python -m tests.support.bundle_reference"


@pytest.mark.parametrize("table", [TOP, RULE, PRUNE, VAULT, COMMON_TABLE, *TABLES])
def test_no_name_of_a_table_stands_for_two_fields(table):
    names = [name for entry in table.fields for name in entry.names]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("table", [RULE, PRUNE, *TABLES])
def test_every_field_of_the_model_can_be_written(table):
    written = {entry.attribute for entry in table.fields}
    decided = {"segment", "location", "hosts"}

    assert {known.name for known in fields(table.model)} - decided <= written
