"""The key of each row is the `_id` of its document.

Models name no column for it: SQLite and PostgreSQL call it as the field is called, and a rename
there would end every process of the release before. Only where this app is installed, with
DB_DRIVER=mongo, is the column `_id`: of models, and of those that migrations make from their state.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import AppConfig, apps
from django.db.models import Model
from django.db.models.signals import class_prepared, pre_migrate  # noqa: TID251 - of all models

DOCUMENT_ID: Final = "_id"


class MongoStore(AppConfig):
    name = "platform_site.mongodb"
    label = "mongodb"

    def ready(self) -> None:
        from platform_site.mongodb.older_layout import bring_up_to_date  # needs the driver

        for model in apps.get_models(include_auto_created=True):
            _key_is_document_id(model)
        class_prepared.connect(_key_is_document_id, dispatch_uid="mongodb.keys")
        pre_migrate.connect(bring_up_to_date, dispatch_uid="mongodb.older_layout")


def _key_is_document_id(sender: type[Model], **_signal: Any) -> None:
    if (key := sender._meta.pk) is not None:  # an abstract model has none
        key.column = DOCUMENT_ID
