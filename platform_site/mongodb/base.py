"""The engine `platform_site.mongodb`: unique indexes that an equality can use.

django-mongodb-backend makes each unique index partial (`{field: {"$type": …}}`), so that several
rows may hold null, as in SQL. MongoDB uses a partial index only for a query that repeats its
filter, which the ORM never does: every lookup by a unique field then reads the whole collection.
"""

from __future__ import annotations

from ctypes import util
from typing import Any

from django.db.models import Field, Index, Model
from pymongo import ASCENDING, IndexModel

# The backend looks for GDAL under twelve names, three times, each by the linker and the compiler:
# half a second of every command. Nothing here stores geometry.
find_library, util.find_library = util.find_library, lambda name: None
try:
    from django_mongodb_backend import base, schema
finally:
    util.find_library = find_library


class SchemaEditor(schema.DatabaseSchemaEditor):  # type: ignore[misc]  # untyped
    def add_index(
        self,
        model: type[Model],
        index: Index,
        *,
        field: Field[Any, Any] | None = None,
        unique: bool = False,
        **place: Any,
    ) -> None:
        """`field`: the only one of the index, which `model` may not have yet."""
        columns = _columns(model, index, field) if unique and not index.condition else []
        if not columns or any(each.null for each in columns):
            super().add_index(model, index, field=field, unique=unique, **place)
            return
        keys = [(str(each.column), ASCENDING) for each in columns]
        whole = IndexModel(keys, name=index.name, unique=True)
        self.get_collection(model._meta.db_table).create_indexes([whole])


def _columns(
    model: type[Model], index: Index, field: Field[Any, Any] | None
) -> list[Field[Any, Any]]:
    if field:
        return [field]
    found = [model._meta.get_field(name) for name in index.fields]
    return [each for each in found if isinstance(each, Field)]


class DatabaseWrapper(base.DatabaseWrapper):  # type: ignore[misc]  # untyped
    SchemaEditorClass = SchemaEditor
