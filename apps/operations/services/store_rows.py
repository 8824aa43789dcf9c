"""Rows of every table as JSON, and back, by the models that the store's migrations describe.

The models are those of the migrations that the store has, not those of this release: an older
store can be saved before it is migrated, and restored as it was.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.apps import apps as installed_apps
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, models
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Collate

from apps.operations.domain.store_archive import (
    ArchiveInvalid,
    LinesDigest,
    Row,
    TableSummary,
    encode_row,
)

# Who lives at the moment: of no use in another store. `migrate` fills Django's own tables.
LEFT_OUT: Final = frozenset({"system.ReadinessMark", "system.ServerProcess"})
_DJANGOS_OWN: Final = frozenset({"contenttypes", "auth", "admin"})
_BATCH_ROWS: Final = 200
_BATCH_BYTES: Final = 8 * 2**20
Model = type[models.Model]


class MigrationHistory:
    """The migrations of the store and of this release, read once.

    A set of migrations is a map: app label → their names. Those of Django's own tables are left
    out: they differ between stores, and `migrate` makes the same tables everywhere.
    """

    def __init__(self) -> None:
        self._loader = MigrationLoader(connection)

    @property
    def applied(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for app, name in sorted(self._loader.applied_migrations):
            if app not in _DJANGOS_OWN:
                found.setdefault(app, []).append(name)
        return {app: tuple(names) for app, names in found.items()}

    def unknown(self, migrations: Mapping[str, Iterable[str]]) -> list[str]:
        """Return those that this release does not have, as `app.name`: a newer one made them."""
        known = self._loader.disk_migrations
        return [
            f"{app}.{name}"
            for app, names in migrations.items()
            for name in names
            if (app, name) not in known
        ]

    def targets(self, migrations: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
        """Return the last ones of each app, which `migrate` takes as targets."""
        given = {(app, name) for app, names in migrations.items() for name in names}
        nodes = self._loader.graph.node_map
        return sorted(
            key
            for key in given
            if not any(each.key in given and each.key[0] == key[0] for each in nodes[key].children)
        )

    def models(self, migrations: Mapping[str, Iterable[str]]) -> dict[str, Model]:
        """Return label → model as these migrations describe it, after those that it refers to."""
        state = self._loader.project_state(self.targets(migrations))
        found = {
            model._meta.label: model
            for model in state.apps.get_models(include_auto_created=True)
            if model._meta.app_label in migrations
            and model._meta.managed
            and model._meta.label not in LEFT_OUT
        }
        ordered: dict[str, Model] = {}
        for label in sorted(found):
            _add_after_references(label, found, ordered, ())
        return ordered


def rows_left_out() -> dict[str, int]:
    """Return label → rows of tables with content that no archive holds, such as Django's groups."""
    derived = {"contenttypes.ContentType", "auth.Permission", *LEFT_OUT}
    counts = {
        model._meta.label: model._default_manager.count()
        for model in installed_apps.get_models(include_auto_created=True)
        if model._meta.app_label in _DJANGOS_OWN and model._meta.label not in derived
    }
    return {label: rows for label, rows in counts.items() if rows}


def read_lines(model: Model) -> Iterator[bytes]:
    """Yield the line of each row, in the order of the keys, which is the same in every store."""
    fields = model._meta.concrete_fields
    has_bytes = any(isinstance(each, models.BinaryField) for each in fields)
    columns = [each.attname for each in fields]
    rows = _in_order(model).values_list(*columns).iterator(chunk_size=20 if has_bytes else 200)
    for row in rows:
        encoded = {
            each.attname: encode_value(value) for each, value in zip(fields, row, strict=True)
        }
        yield encode_row(encoded)


def table_summary(model: Model) -> TableSummary:
    """Count and hash the rows that the store has."""
    digest = LinesDigest(model._meta.label)
    for line in read_lines(model):
        digest.update(line)
    return digest.summary()


def insert_rows(model: Model, rows: Iterable[tuple[int, Row]]) -> None:
    """Insert rows with their sizes in bytes, in batches; raise ArchiveInvalid naming the row."""
    batch: list[models.Model] = []
    size = 0
    for number, (row_bytes, row) in enumerate(rows, start=1):
        batch.append(decode_row(model, number, row))
        size += row_bytes
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            _insert(model, batch, number)
            batch, size = [], 0
    if batch:
        _insert(model, batch, number)


def encode_value(value: Any) -> object:
    """Return a value as JSON has it; raise TypeError for a kind that no column of ours has."""
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return value
    raise TypeError(f"{type(value).__name__} has no form in an archive")


def decode_row(model: Model, number: int, row: Row) -> models.Model:
    fields = {each.attname: each for each in model._meta.concrete_fields}
    place = f"{model._meta.label}, row {number}"
    if row.keys() != fields.keys():
        wrong = sorted(row.keys() ^ fields.keys())
        raise ArchiveInvalid(f"{place}: these columns are missing or unknown: {', '.join(wrong)}")
    values: dict[str, object] = {}
    for name, each in fields.items():
        try:
            values[name] = _decode_value(each, row[name])
        except (ValidationError, ValueError, TypeError, OverflowError, binascii.Error):
            raise ArchiveInvalid(f"{place}: the value of {name} is not one of its kind") from None
    return model(**values)


def _decode_value(field: models.Field[Any, Any], value: object) -> object:
    if isinstance(field, models.ForeignKey):
        field = field.target_field
    if value is None or isinstance(field, models.JSONField):
        return value
    if isinstance(field, models.BinaryField):
        return base64.b64decode(str(value), validate=True)
    if isinstance(field, models.DateTimeField):
        instant = datetime.fromisoformat(str(value))
        if instant.tzinfo is None:
            raise ValueError("a time without an offset")
        return instant
    if isinstance(field, (models.CharField, models.TextField)) and not isinstance(value, str):
        raise TypeError("expected text")
    return field.to_python(value)


def _insert(model: Model, batch: list[models.Model], last: int) -> None:
    try:
        model._default_manager.bulk_create(batch)
    except (DatabaseError, ValueError) as error:
        words = str(error).splitlines()[0][:200]
        first = last - len(batch) + 1
        raise ArchiveInvalid(
            f"{model._meta.label}, rows {first} to {last}: the store does not take them: {words}"
        ) from error


def _in_order(model: Model) -> models.QuerySet[models.Model]:
    key = model._meta.pk
    assert key is not None
    rows = model._base_manager.all()
    if isinstance(key, models.CharField) and connection.vendor == "postgresql":
        return rows.order_by(Collate(key.name, "C"))  # by bytes, as the other stores sort
    return rows.order_by(key.name)


def _add_after_references(
    label: str, found: Mapping[str, Model], ordered: dict[str, Model], path: tuple[str, ...]
) -> None:
    if label in ordered or label in path:
        return
    for each in found[label]._meta.concrete_fields:
        if isinstance(each, models.ForeignKey) and each.related_model is not None:
            target = each.related_model._meta.label
            if target in found:
                _add_after_references(target, found, ordered, (*path, label))
    ordered[label] = found[label]
