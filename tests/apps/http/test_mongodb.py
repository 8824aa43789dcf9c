"""MongoDB without a server: keys are document ids, and lookups have indexes that serve them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from bson import ObjectId
from django.apps import apps
from django.db import connection, models
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model, QuerySet
from pymongo import DeleteOne, ReplaceOne

from apps.accounts.models import RefreshToken, RevokedToken, StreamTicket, UiSession, User
from apps.agents.models import Agent
from apps.executions.models import (
    Artifact,
    Blob,
    Execution,
    IdempotencyKey,
    Snapshot,
    Step,
    StoredObject,
    WorkLease,
)
from apps.operations.models import AuditRecord
from apps.streams.models import StoredChunk, Topic
from kernel import clock
from kernel.ids import new_uuid
from platform_site.mongodb import apps as mongodb
from sync_stack.orchestrator.models import JournalChunk, LedgerTarget, RefRecord, Task
from tests.support import mongo_queries

KEY = new_uuid()
NOW = clock.now()
LOOKUPS: list[tuple[QuerySet[Any], str]] = [  # a selector's filter, and what the index begins with
    (Agent.objects.filter(agent_id="a", removed_at=None), "agent_id"),
    (Agent.objects.filter(token_sha256="t", removed_at=None), "token_sha256"),
    (Artifact.objects.filter(execution_id=KEY, artifact_id="a"), "execution_id"),
    (Artifact.objects.filter(sha256__in=["a", "b"]), "sha256"),
    (Artifact.objects.filter(stored_object_id__in=[KEY]), "stored_object_id"),
    (AuditRecord.objects.filter(time__lt=NOW), "time"),
    (Blob.objects.filter(sha256="a"), "sha256"),
    (Execution.objects.filter(run_id="r", deleted_at=None), "run_id"),
    (Execution.objects.filter(snapshot_id__in=[KEY]), "snapshot_id"),
    (Execution.objects.filter(status="Queued", deleted_at=None), "status"),
    (Execution.objects.filter(workspace_id__in=[KEY], deleted_at=None), "workspace_id"),
    (Execution.objects.filter(finished_at__lt=NOW, deleted_at=None), "finished_at"),
    (IdempotencyKey.objects.filter(scope="s", created_at__gt=NOW), "scope"),
    (JournalChunk.objects.filter(journal="j"), "journal"),
    (LedgerTarget.objects.filter(key="k"), "key"),
    (LedgerTarget.objects.filter(rule_id="r", repo="o/r"), "rule_id"),
    (LedgerTarget.objects.filter(destination_id="d").exclude(id="u"), "destination_id"),
    (LedgerTarget.objects.filter(intent_task_id="t"), "intent_task_id"),
    (LedgerTarget.objects.filter(datasource="d"), "datasource"),
    (RefRecord.objects.filter(rule_id="r"), "rule_id"),
    (RefreshToken.objects.select_related("family").filter(token_hash="t"), "token_hash"),
    (RefreshToken.objects.filter(access_jti="j"), "access_jti"),
    (RefreshToken.objects.filter(family_id=KEY, used_at=None), "family_id"),
    (RevokedToken.objects.filter(jti="j"), "jti"),
    (Snapshot.objects.filter(archive_sha256__in=["a", "b"]), "archive_sha256"),
    (Snapshot.objects.filter(archive_sha256=None), "archive_sha256"),
    (Snapshot.objects.filter(digest="d"), "digest"),
    (Step.objects.filter(execution_id=KEY).order_by("index"), "execution_id"),
    (Step.objects.select_related("execution").filter(job_id="j"), "job_id"),
    (Step.objects.filter(job_state="running", agent_id="a"), "agent_id"),
    (Step.objects.filter(job_state="running", deadline__lte=NOW), "job_state"),
    (StoredChunk.objects.filter(topic="t", last__gt=5), "topic"),
    (StoredObject.objects.filter(name__in=["a", "b"]), "name"),
    (StoredObject.objects.filter(removed_at__lte=NOW, storage="s"), "removed_at"),
    (StreamTicket.objects.filter(ticket_hash="t", used_at=None), "ticket_hash"),
    (Task.objects.filter(idempotency_key="k"), "idempotency_key"),
    (Task.objects.filter(coalesce_key="c", state__in=["PENDING"]), "coalesce_key"),
    (Task.objects.filter(waiting_for__in=["d"], state="RETRYING"), "waiting_for"),
    (Task.objects.filter(finished_at__lt=NOW), "finished_at"),
    (Topic.objects.filter(name="t", closed=""), "name"),
    (UiSession.objects.filter(key_hash="k", expires_at__gt=NOW), "key_hash"),
    (UiSession.objects.filter(user_id=KEY), "user_id"),
    (User.objects.filter(email="a@example.org"), "email"),
    (WorkLease.objects.filter(name="sweep"), "name"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        pytest.param(lookup.query, first, id=f"{number} {lookup.model.__name__} {first}")
        for number, (lookup, first) in enumerate(LOOKUPS)
    ],
)
def test_an_index_that_begins_with_the_field_serves_the_lookup(query, first):
    asked = mongo_queries.compiled(query, mongo_queries.connection())

    assert asked is not None
    assert first in mongo_queries.first_fields(asked.collection)
    assert mongo_queries.is_served(asked.match, {first})


@pytest.mark.parametrize(
    "match",
    [
        {"$expr": {"$eq": ["$name", "a"]}},
        {"$nor": [{"name": "a"}]},
        {"name": {"$exists": True}},
        {"name": {"$regex": "a", "$options": ""}},
        {"$or": [{"name": "a"}, {"other": "b"}]},
        {"other": "a"},
        {},
    ],
    ids=str,
)
def test_a_filter_that_bounds_no_first_field_counts_as_a_scan(match):
    assert not mongo_queries.is_served(match, {"name"})


def test_each_unique_field_has_a_unique_index_of_all_documents():
    for model in apps.get_models():
        made = mongo_queries.indexes()[model._meta.db_table]
        whole = {tuple(each["key"]) for each in made if each.get("unique")}

        assert all("partialFilterExpression" not in each for each in made), model
        assert {(field.column,) for field in _unique_fields(model)} <= whole, model
        for constraint in model._meta.constraints:
            assert isinstance(constraint, models.UniqueConstraint)
            columns = [model._meta.get_field(name).column for name in constraint.fields]  # type: ignore[union-attr]
            assert tuple(columns) in whole, model


def _unique_fields(model: type[Model]) -> list[models.Field[Any, Any]]:
    return [each for each in model._meta.local_fields if each.unique and not each.primary_key]


ASK_KEYS = """
import json, django; django.setup()
from django.apps import apps
from django.db import connection
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from tests.support.mongo_queries import compiled
later = MigrationLoader(None).project_state().apps
def keys(registry):
    return {each._meta.label: each._meta.pk.column for each in registry.get_models()}
def match(model):
    digits = 24 if "ObjectId" in type(model._meta.pk).__name__ else 32
    return compiled(model._default_manager.filter(pk="0" * digits).query, connection).match
asked = {each._meta.label: match(each) for each in apps.get_models()}
loader = MigrationLoader(None, ignore_no_migrations=True)
autodetector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
missing = sorted(autodetector.changes(loader.graph))
print(json.dumps([keys(apps), keys(later), asked, missing], default=str))
"""


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["platform_site.settings.test", "platform_site.settings.sync"])
def test_on_mongodb_every_key_is_the_id_of_its_document(settings):
    environment = {
        **os.environ, "DB_DRIVER": "mongo", "MONGO_URI": "mongodb://localhost:1",
        "DJANGO_SETTINGS_MODULE": settings, "APP_ENV": "development",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", ASK_KEYS], env=environment, cwd=mongo_queries.ROOT,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    now, later, asked, missing = json.loads(done.stdout)

    assert set(now.values()) == {"_id"}
    assert set(later.values()) == {"_id"}
    assert {label for label, match in asked.items() if match.keys() != {"_id"}} == set()
    assert "sync.Task" in now
    assert missing == []  # migrations, also of the apps of Django


@pytest.mark.store
@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor == "mongodb", reason="its key is _id")
def test_in_tables_the_key_keeps_its_name_for_processes_of_the_release_before():
    with connection.cursor() as cursor:
        keys = {
            model._meta.db_table: connection.introspection.get_primary_key_column(
                cursor, model._meta.db_table
            )
            for model in apps.get_models()
        }

    assert keys == {model._meta.db_table: model._meta.pk.attname for model in apps.get_models()}


@pytest.mark.store
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "mongodb", reason="a schema of tables")
def test_ledgers_of_the_schema_before_the_lookup_indexes_are_still_there_after_it():
    before = _migrated("0003_trace_and_histograms")
    old = before.get_model("sync", "LedgerUnit")
    old.objects.create(id="u-1", key="k", datasource="redis", intent_task_id="t-1", content=b"\0x")
    try:
        _migrated("0004_ledger_lookups")

        row = LedgerTarget.objects.get(intent_task_id="t-1")
        with connection.cursor() as cursor:
            made = connection.introspection.get_constraints(cursor, "sync_ledgerunit")
    finally:
        LedgerTarget.objects.all().delete()
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes("sync"))
    assert (row.id, bytes(row.content)) == ("u-1", b"\0x")
    assert made.keys() >= {"sync_unit_datasource", "sync_unit_intent"}


def _migrated(name: str) -> Any:
    executor = MigrationExecutor(connection)
    return executor.migrate([("sync", name)]).apps


class FakeCollection:
    """Documents by key; after `stop_after` writes it fails, as a server that goes away does."""

    def __init__(self, documents: list[dict[str, Any]], indexes: dict[str, Any]) -> None:
        self._documents, self.indexes = {each["_id"]: each for each in documents}, indexes
        self.stop_after = 1000

    @property
    def documents(self) -> list[dict[str, Any]]:
        return list(self._documents.values())

    def find(self, _object_ids: dict[str, Any]) -> FakeCollection:
        old = [each for each in self.documents if isinstance(each["_id"], ObjectId)]
        return FakeCollection(old, {})

    def limit(self, count: int) -> list[dict[str, Any]]:
        return [dict(each) for each in self.documents[:count]]

    def find_one(self, object_ids: dict[str, Any]) -> dict[str, Any] | None:
        return next(iter(self.find(object_ids).documents), None)

    def drop_index(self, name: str) -> None:
        del self.indexes[name]

    def index_information(self) -> dict[str, Any]:
        return dict(self.indexes)

    def create_indexes(self, made: list[Any]) -> None:
        self.indexes |= {each.document["name"]: each.document for each in made}

    def count_down(self) -> None:
        if self.stop_after == 0:
            raise ConnectionError
        self.stop_after -= 1

    def bulk_write(self, writes: list[Any]) -> None:
        for write in writes:
            self.count_down()
            gone = write._filter["_id"]
            self._documents.pop(gone, None)
            if isinstance(write, ReplaceOne):
                self._documents[gone] = {**write._filter, **write._doc}
            else:
                assert isinstance(write, DeleteOne)


class FakeEditor:
    def __init__(self, collection: FakeCollection) -> None:
        self.collection = collection

    def get_collection(self, _name: str) -> FakeCollection:
        return self.collection

    def _create_model_indexes(self, model: type[Model]) -> None:
        self.collection.count_down()
        self.collection.indexes |= {name: {} for name in _declared(model)}


def _declared(model: type[Model]) -> list[str]:
    return [str(each["name"]) for each in mongo_queries.indexes()[model._meta.db_table]]


def _older() -> FakeCollection:
    documents = [
        {"_id": ObjectId(), "id": f"u-{number}", "name": f"n-{number}"} for number in range(1201)
    ]
    partial = {"unique": True, "partialFilterExpression": {"name": {"$type": "string"}}}
    return FakeCollection(documents, {"_id_": {}, "streams_topic_name_uniq": partial})


@pytest.mark.parametrize("stops", [[], [1], [2, 501, 1300], [2402]], ids=str)
def test_documents_of_an_older_release_get_their_keys_as_ids_also_when_it_is_stopped(stops):
    collection = _older()
    for stop in stops:
        collection.stop_after = stop
        with pytest.raises(ConnectionError):
            mongodb._update(FakeEditor(collection), Topic)
    collection.stop_after = 10_000

    mongodb._update(FakeEditor(collection), Topic)

    assert sorted(collection.documents, key=lambda each: int(each["_id"][2:])) == [
        {"_id": f"u-{number}", "name": f"n-{number}"} for number in range(1201)
    ]
    assert collection.indexes == {"_id_": {}, **{name: {} for name in _declared(Topic)}}


def test_a_collection_of_today_is_left_alone():
    indexes = {"_id_": {}, "streams_topic_name_uniq": {"unique": True}}
    collection = FakeCollection([{"_id": "u-1", "name": "n"}], dict(indexes))
    collection.stop_after = 0

    mongodb._update(FakeEditor(collection), Topic)

    assert collection.indexes == indexes
