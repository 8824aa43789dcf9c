"""The key of each row is the `_id` of its document, also in collections of older releases.

Models name no column for it: SQLite and PostgreSQL call it as the field is called, and a rename
there would end every process of the release before. Only where this app is installed, with
DB_DRIVER=mongo, is the column `_id`: of models, and of those that migrations make from their state.

An older release kept the key beside an ObjectId, and its unique indexes were partial. Such
collections change before the migrations of each app, whenever `migrate` runs; it finds nothing to
do in a new store, or where it was done. Stopped in the middle, the next `migrate` goes on.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import AppConfig, apps
from django.db import connections
from django.db.models import Model
from django.db.models.signals import class_prepared, pre_migrate  # noqa: TID251 - of all models
from pymongo import DeleteOne, IndexModel, ReplaceOne

DOCUMENT_ID: Final = "_id"
_BATCH: Final = 500
_UNFINISHED: Final = "partita_unfinished"  # an index of nothing: it is there while work goes on
_OBJECT_ID: Final = {DOCUMENT_ID: {"$type": "objectId"}}


class MongoStore(AppConfig):
    name = "platform_site.mongodb"
    label = "mongodb"

    def ready(self) -> None:
        for model in apps.get_models(include_auto_created=True):
            _key_is_document_id(model)
        class_prepared.connect(_key_is_document_id, dispatch_uid="mongodb.keys")
        pre_migrate.connect(update_older_layout, dispatch_uid="mongodb.older_layout")


def _key_is_document_id(sender: type[Model], **_signal: Any) -> None:
    if (key := sender._meta.pk) is not None:  # an abstract model has none
        key.column = DOCUMENT_ID


def update_older_layout(sender: AppConfig, using: str, **_signal: Any) -> None:
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
    indexes = collection.index_information()
    is_partial = any("partialFilterExpression" in each for each in indexes.values())
    if not (has_older_keys or is_partial or _UNFINISHED in indexes):
        return
    collection.create_indexes([IndexModel(_UNFINISHED, name=_UNFINISHED)])
    for name in collection.index_information().keys() - {"_id_", _UNFINISHED}:
        collection.drop_index(name)
    if has_older_keys:
        _move_keys(collection, column)
    editor._create_model_indexes(model)
    collection.drop_index(_UNFINISHED)


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
