"""The rows of a run aggregate: read and written by the ORM, on PostgreSQL by cached statements.

Each batch of reports uses the same few statements. Without the cache, a third of the time of its
transaction goes into the ORM, which builds them with forty columns and a placeholder for each key.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models import F

from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import StepKeys
from apps.streams.api import LostRace

Row = TypeVar("Row", Execution, Step)
# The rows are taken in one order, so that two transactions never wait for each other.
_RAISE: Final = (
    "WITH taken AS MATERIALIZED (SELECT id FROM {table} WHERE id = ANY(%b) AND deleted_at IS NULL"
    " ORDER BY id FOR UPDATE)"
    " UPDATE {table} SET version = version + 1 WHERE id IN (SELECT id FROM taken)"
    " RETURNING {columns}"
)
_VARYING: Final = frozenset({"next_seq", "position"})  # differ from row to row
_UPDATE: Final = "UPDATE {table} SET {columns} WHERE id = ANY(%b)"
_READ: Final = "SELECT {columns} FROM {table} WHERE id = ANY(%b)"


@dataclass(slots=True)
class StepRows:
    """The rows of the steps of a run, by the index of the step: read when needed, written once."""

    keys: StepKeys
    changes: dict[int, dict[str, object]] = field(default_factory=lambda: defaultdict(dict))
    _read: dict[int, Step] = field(default_factory=dict)

    def read(self, indexes: Iterable[int]) -> Mapping[int, Step]:
        """Return the rows that are known, after those of `indexes` were read in one query."""
        for step in read_steps([self.keys.step_pks[at] for at in indexes if at not in self._read]):
            self.put(step)
        return self._read

    def put(self, step: Step) -> None:
        index = step.index - 1
        for name, value in self.changes.get(index, {}).items():
            setattr(step, name, value)
        self._read[index] = step

    def get(self, index: int) -> Step:
        """Return the row of the step with the changes made so far."""
        return self._read.get(index) or self.read([index])[index]

    def change(self, index: int, values: Mapping[str, object]) -> None:
        self.changes[index].update(values)
        if step := self._read.get(index):
            for name, value in values.items():
                setattr(step, name, value)

    def known_value(self, index: int, column: str) -> Any:
        """Return the column of a step, or None if neither its row nor a change of it is known."""
        step = self._read.get(index)
        return getattr(step, column) if step else self.changes.get(index, {}).get(column)

    def is_read(self, index: int) -> bool:
        return index in self._read

    def write(self) -> None:
        """Send one UPDATE for each set of equal changes; log positions differ and go together.

        Raise LostRace if one of the rows is gone.
        """
        plain = {index: plain_values(values) for index, values in self.changes.items()}
        self.changes.clear()
        _write_varying(self.keys, plain)
        groups: dict[str, tuple[dict[str, object], list[UUID]]] = {}
        for index, values in plain.items():
            if values:
                key = json.dumps(values, sort_keys=True, default=str)
                groups.setdefault(key, (values, []))[1].append(self.keys.step_pks[index])
        for values, pks in groups.values():
            if update_rows(Step, pks, values) != len(pks):
                raise LostRace


def raise_versions(execution_pks: Sequence[UUID]) -> list[Execution]:
    """Raise the version of the runs by one and return them without deleted ones.

    Another transaction that does the same waits here until this one is over.
    """
    if _is_postgresql():
        return _fetch_rows(Execution, _RAISE, execution_pks)
    Execution.objects.filter(pk__in=execution_pks).update(version=F("version") + 1)
    return list(Execution.objects.filter(pk__in=execution_pks, deleted_at=None))


def read_steps(step_pks: Sequence[UUID]) -> list[Step]:
    if not step_pks:
        return []
    if _is_postgresql():
        return _fetch_rows(Step, _READ, step_pks)
    return list(Step.objects.filter(pk__in=step_pks))


def update_rows(model: type[Row], pks: Sequence[UUID], values: Mapping[str, Any]) -> int:
    """Give all these rows the same values, by field; return the number of rows."""
    if not _is_postgresql():
        return model.objects.filter(pk__in=pks).update(**values)
    statement, fields = _updating(model, tuple(values))
    stored: list[Any] = [
        field.get_db_prep_save(value, connection)
        for field, value in zip(fields, values.values(), strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*stored, list(pks)])
        changed: int = cursor.rowcount
    return changed


def _write_varying(keys: StepKeys, plain: Mapping[int, dict[str, object]]) -> None:
    """Take log positions out of `plain` and write them together, unless all are equal."""
    varying = {index: values for index, values in plain.items() if values.keys() >= _VARYING}
    if len({tuple(values[name] for name in _VARYING) for values in varying.values()}) <= 1:
        return
    steps = [
        Step(pk=keys.step_pks[index], **{name: values.pop(name) for name in _VARYING})
        for index, values in varying.items()
    ]
    Step.objects.bulk_update(steps, list(_VARYING))


def plain_values(values: Mapping[str, object]) -> dict[str, object]:
    """Replace members of enums by their text."""
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items()}


def _is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def _fetch_rows(model: type[Row], statement: str, pks: Sequence[UUID]) -> list[Row]:
    text, names, conversions = _reading(model, statement)
    with connection.cursor() as cursor:
        cursor.execute(text, [list(pks)])
        rows = cursor.fetchall()
    return [model.from_db(connection.alias, names, _convert_row(row, conversions)) for row in rows]


def _convert_row(
    row: Sequence[Any], conversions: Iterable[tuple[int, Callable[..., Any]]]
) -> list[Any]:
    values = list(row)
    for column, convert in conversions:
        values[column] = convert(values[column], None, connection)
    return values


@cache
def _reading(
    model: type[models.Model], statement: str
) -> tuple[str, list[str], list[tuple[int, Callable[..., Any]]]]:
    """Return the statement, the names of its fields, and the conversions by column."""
    described: Any = model._meta  # noqa: SLF001 - public in spite of its name
    fields = described.concrete_fields
    columns = ", ".join(f'"{field.column}"' for field in fields)
    conversions = [
        (column, field.from_db_value)
        for column, field in enumerate(fields)
        if hasattr(field, "from_db_value")
    ]
    text = statement.format(table=described.db_table, columns=columns)
    return text, [field.attname for field in fields], conversions


@cache
def _updating(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, tuple[Any, ...]]:
    described: Any = model._meta  # noqa: SLF001 - as above
    fields = tuple(described.get_field(name) for name in names)
    columns = ", ".join(f'"{field.column}" = %s' for field in fields)
    return _UPDATE.format(table=described.db_table, columns=columns), fields
