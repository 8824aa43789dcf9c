"""Tables in memory under real models: what the sync asks of Django's rows, a tenth as long.

Reads give copies, unique keys are kept, conditions are judged and changes made in one step, as in a
store. A lookup that is not known here fails loudly.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

from django.db import IntegrityError, models
from django.db.models import F, Q, Value
from django.db.models.expressions import CombinedExpression

Row = dict[str, Any]
LOOKUPS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "exact": operator.eq,
    "in": lambda found, wanted: found in wanted,
    "contains": lambda found, wanted: wanted in found,
    "isnull": lambda found, wanted: (found is None) is wanted,
    "lt": lambda found, wanted: found is not None and found < wanted,
    "lte": lambda found, wanted: found is not None and found <= wanted,
    "gt": lambda found, wanted: found is not None and found > wanted,
    "gte": lambda found, wanted: found is not None and found >= wanted,
}


class Table:
    """One model's rows. `point` comes before and after every write."""

    def __init__(self, model: type[models.Model], point: Callable[[str], None]) -> None:
        self.model, self._point = model, point
        self.rows: dict[str, Row] = {}
        fields = model._meta.concrete_fields
        self.names = [field.attname for field in fields]
        self._json = {field.attname for field in fields if isinstance(field, models.JSONField)}
        self._unique: list[tuple[str, ...]] = [(field.attname,) for field in fields if field.unique]
        for constraint in model._meta.constraints:
            if isinstance(constraint, models.UniqueConstraint):
                self._unique.append(tuple(constraint.fields))

    def insert(self, row: models.Model) -> None:
        self._point("store")
        made = {name: self._stored(name, getattr(row, name)) for name in self.names}
        for fields in self._unique:
            key = [made[name] for name in fields]
            if any([other[name] for name in fields] == key for other in self.rows.values()):
                raise IntegrityError(f"{self.model.__name__} {key} exists")
        self.rows[made["id"]] = made
        self._point("store done")

    def update(self, chosen: Callable[[], list[Row]], fields: dict[str, Any]) -> int:
        self._point("store")
        rows = chosen()
        for row in rows:
            row |= {name: self._stored(name, _valued(row, text)) for name, text in fields.items()}
        self._point("store done")
        return len(rows)

    def delete(self, chosen: Callable[[], list[Row]]) -> int:
        self._point("store")
        rows = chosen()
        for row in rows:
            del self.rows[row["id"]]
        self._point("store done")
        return len(rows)

    def _stored(self, name: str, value: Any) -> Any:
        if name in self._json:
            return json.dumps(value)
        return str(value) if isinstance(value, str) else value

    def shown(self, row: Row, name: str) -> Any:
        return json.loads(row[name]) if name in self._json else row[name]

    def instance(self, row: Row) -> models.Model:
        return self.model.from_db(
            "default", self.names, [self.shown(row, name) for name in self.names]
        )


def _valued(row: Row, value: Any) -> Any:
    if isinstance(value, CombinedExpression):
        assert value.connector == "+"
        return _valued(row, value.lhs) + _valued(row, value.rhs)
    if isinstance(value, F):
        return row[value.name]  # type: ignore[attr-defined]
    return value.value if isinstance(value, Value) else value


class Rows:
    """A query: lazy, chained, as a QuerySet."""

    def __init__(
        self, table: Table, tests: Sequence[Callable[[Row], bool]] = (), **more: Any
    ) -> None:
        self._table, self._tests, self._more = table, tuple(tests), more

    def _with(self, *tests: Callable[[Row], bool], **more: Any) -> Rows:
        return Rows(self._table, (*self._tests, *tests), **{**self._more, **more})

    def all(self) -> Rows:
        return self

    def defer(self, *_names: str) -> Rows:
        return self

    only = defer

    def distinct(self) -> Rows:
        return self._with(distinct=True)

    def filter(self, *conditions: Q, **where: Any) -> Rows:
        return self._with(*map(_test, conditions), *(_lookup(*pair) for pair in where.items()))

    def exclude(self, *conditions: Q, **where: Any) -> Rows:
        tests = [*map(_test, conditions), *(_lookup(*pair) for pair in where.items())]
        return self._with(lambda row: not all(test(row) for test in tests))

    def order_by(self, *names: str) -> Rows:
        return self._with(order=names)

    def values_list(self, *names: str, flat: bool = False) -> Rows:
        return self._with(values=names, flat=flat)

    def update(self, **fields: Any) -> int:
        return self._table.update(self._found, fields)

    def delete(self) -> tuple[int, dict[str, int]]:
        return self._table.delete(self._found), {}

    def create(self, **fields: Any) -> models.Model:
        made = self._table.model(**fields)
        self._table.insert(made)
        return made

    def get(self, **where: Any) -> Any:
        (only,) = self.filter(**where)
        return only

    def first(self) -> Any:
        found = list(self if "order" in self._more else self.order_by("id"))
        return found[0] if found else None

    def exists(self) -> bool:
        return bool(self._found())

    def count(self) -> int:
        return len(self._found())

    def __bool__(self) -> bool:
        return self.exists()

    def __getitem__(self, key: slice) -> list[Any]:
        return list(self)[key]

    def __iter__(self) -> Iterator[Any]:
        shown = [self._shown(row) for row in self._found()]
        return iter(dict.fromkeys(shown) if self._more.get("distinct") else shown)

    def _found(self) -> list[Row]:
        rows: Iterable[Row] = self._table.rows.values()
        found = [row for row in rows if all(test(row) for test in self._tests)]
        for name in reversed(self._more.get("order", ())):
            field = name.removeprefix("-")
            found.sort(key=operator.itemgetter(field), reverse=name != field)
        return found

    def _shown(self, row: Row) -> Any:
        names = self._more.get("values")
        if names is None:
            return self._table.instance(row)
        values = tuple(self._table.shown(row, name) for name in names)
        return values[0] if self._more.get("flat") else values


def _lookup(name: str, wanted: Any) -> Callable[[Row], bool]:
    field, _, kind = name.partition("__")
    judge = LOOKUPS[kind or "exact"]
    return lambda row: judge(row[field], wanted)


def _test(condition: Q) -> Callable[[Row], bool]:
    children: list[Any] = list(condition.children)
    parts = [_test(each) if isinstance(each, Q) else _lookup(*each) for each in children]
    every = all if condition.connector == Q.AND else any
    return lambda row: every(part(row) for part in parts) is not condition.negated


@contextmanager
def in_memory(kinds: Iterable[type[models.Model]], point: Callable[[str], None]) -> Iterator[None]:
    """The rows of these models are in memory, and none are there yet."""
    with ExitStack() as stack:
        for model in kinds:
            table = Table(model, point)
            rows = Rows(table)
            stack.enter_context(mock.patch.object(model, "objects", rows))
            stack.enter_context(mock.patch.dict(vars(model._meta), default_manager=rows))
            stack.enter_context(mock.patch.object(model, "save", _saver(table)))
        yield


def _saver(table: Table) -> Callable[..., None]:
    def save(row: models.Model, *, force_insert: bool) -> None:
        assert force_insert
        table.insert(row)

    return save
