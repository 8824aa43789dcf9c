"""Collections that an older release made: the key beside an ObjectId, unique indexes partial.

Runs before the migrations of each app, whenever `migrate` does; it finds nothing to do in a new
store, or where it was done. Stopped in the middle, the next `migrate` goes on.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import AppConfig
from django.db import connections
from django.db.models import Model
from pymongo import DeleteOne, IndexModel, ReplaceOne

from platform_site.mongodb.apps import DOCUMENT_ID

_BATCH: Final = 500
_UNFINISHED: Final = "partita_unfinished"  # an index of nothing: it is there while work goes on
_OBJECT_ID: Final = {DOCUMENT_ID: {"$type": "objectId"}}


def bring_up_to_date(sender: AppConfig, using: str, **_signal: Any) -> None:
    """Give the documents of an app's models their keys as `_id`, and the indexes of today."""
    connection = connections[using]
    known = set(connection.introspection.table_names())
    with connection.schema_editor() as editor:
        for model in sender.get_models(include_auto_created=True):
            if model._meta.managed and model._meta.db_table in known:
                _update(editor, model)


def _update(editor: Any, model: type[Model]) -> None:
    collection = editor.get_collection(model._meta.db_table)
    assert model._meta.pk is not None
    column = model._meta.pk.get_attname_column()[1] or DOCUMENT_ID
    has_older_keys = column != DOCUMENT_ID and collection.find_one(_OBJECT_ID) is not None
    if not has_older_keys and not _indexes_are_older(collection):
        return
    collection.create_indexes([IndexModel(_UNFINISHED, name=_UNFINISHED)])
    for name in collection.index_information().keys() - {"_id_", _UNFINISHED}:
        collection.drop_index(name)
    if has_older_keys:
        _move_keys(collection, column)
    editor._create_model_indexes(model)
    collection.drop_index(_UNFINISHED)


def _indexes_are_older(collection: Any) -> bool:
    """Unique and partial, or left unfinished by a run that was stopped."""
    indexes = collection.index_information()
    partial = any("partialFilterExpression" in each for each in indexes.values())
    return partial or _UNFINISHED in indexes


def _move_keys(collection: Any, column: str) -> None:
    """First the document under its key, then without the older one: a row is never missing."""
    while documents := list(collection.find(_OBJECT_ID).limit(_BATCH)):
        writes: list[ReplaceOne[Any] | DeleteOne] = []
        for document in documents:
            older, key = document.pop(DOCUMENT_ID), document.pop(column)
            writes += [
                ReplaceOne({DOCUMENT_ID: key}, document, upsert=True),
                DeleteOne({DOCUMENT_ID: older}),
            ]
        collection.bulk_write(writes)
