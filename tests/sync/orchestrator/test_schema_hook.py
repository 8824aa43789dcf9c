"""Files are checked against the registry's schemas, which are read from Git over HTTP.

(reference: sync-stack 4.6)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from sync_stack.core.bundle.model import SchemaRegistry
from sync_stack.core.bundle.secret_managers import SecretManager, TokenAuth
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.repositories.schemas import Schemas
from tests.support.git_server import HttpGit, Repository, served
from tests.support.sync_world import World, rule

pytestmark = pytest.mark.store
TOKEN = "token-of-the-registry"
PORTS = {"properties": {"port": {"type": "integer", "x-partita-log": True}}}


class Shop(World):
    """A world whose repositories are served over HTTP, with a registry of schemas beside."""

    site: HttpGit
    schemas: Repository

    def publish(self, files: dict[str, str | None]) -> str:
        return self.schemas.commit({f"of/{name}": text for name, text in files.items()})


@pytest.fixture
def shop(tmp_path) -> Iterator[Shop]:
    world = Shop(tmp_path, rules=(rule(strict_validation=True),))
    world.schemas = Repository(world.repository.folder, name="acme/schemas")
    with served(HttpGit(world.repository.folder / "bare", password=TOKEN)) as world.site:
        world.endpoint = f"http://127.0.0.1:{world.site.port}"
        world.token = SecretRef(value=TOKEN)
        world.schema_registry = SchemaRegistry(platform="github", repo="acme/schemas", path="of")
        yield world


def test_a_file_that_breaks_its_schema_writes_nothing(shop):
    """Sync invariant 18."""
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    good = shop.finish(shop.commit_and_push({"app.yaml": "port: 1\n"}))
    assert good.result["files"][0]["validation"] == "ok"
    bad = shop.finish(shop.commit_and_push({"app.yaml": "port: many\n"}))
    assert (bad.state, bad.message) == ("FAILED", "schema_invalid")
    assert (bad.error["file"], bad.error["line"]) == ("app.yaml", 1)
    (told,) = bad.result["files"]
    assert (told["file"], told["validation"], told["status"]) == ("app.yaml", "failed", "error")
    assert "many" not in json.dumps([bad.error, bad.result])
    assert shop.values() == {"port": "1"}


def test_a_rule_that_is_not_strict_writes_and_warns(shop):
    shop.with_rules(strict_validation=False)
    shop.publish({"default.cue": "#Config: {port: int, ...}\n"})
    task = shop.finish(shop.commit_and_push({"app.yaml": "port: many\n"}))
    assert (task.state, task.result["files"][0]["validation"]) == ("SUCCEEDED", "warn")
    assert "port" in task.result["targets"][0]["warnings"][0]
    assert shop.values() == {"port": "many"}


def test_a_file_without_a_schema_is_not_checked(shop):
    shop.publish({"other.schema.json": json.dumps(PORTS)})
    task = shop.finish(shop.commit_and_push({"app.yaml": "port: many\n"}))
    assert (task.state, task.result["files"][0]["validation"]) == ("SUCCEEDED", "none")


def test_a_registry_that_cannot_be_read_stops_strict_rules_for_now(shop):
    """Sync invariant 18: what cannot be checked is not written."""
    shop.schemas.bare.rename(shop.folder / "away")
    task = shop.run(shop.commit_and_push({"app.yaml": "port: 1\n"}))
    assert (task.state, task.error["code"]) == ("RETRYING", "schema_unavailable")
    assert shop.values() == {}
    shop.with_rules(strict_validation=False)
    lenient = shop.finish(shop.commit_and_push({"app.yaml": "port: 2\n"}))
    assert "schema_unavailable" in lenient.result["targets"][0]["warnings"][0]
    assert shop.values() == {"port": "2"}


def test_without_its_schema_no_rule_with_secrets_writes_what_may_be_a_placeholder(shop):
    """Sync invariant 18: a schema might have said that the value is to be fetched."""
    shop.with_rules(strict_validation=False, secret_manager="vault")
    shop.schemas.bare.rename(shop.folder / "away")
    manager = SecretManager(
        name="vault",
        kind="vault",
        endpoint="http://127.0.0.1:1",
        auth=TokenAuth(token=SecretRef(value="t")),
    )
    shop.secret_managers = (manager,)
    task = shop.run(shop.commit_and_push({"app.yaml": "password: change-me\n"}))
    assert (task.state, task.error["code"]) == ("RETRYING", "secret_unavailable")
    assert shop.values() == {}


def test_a_push_to_the_registry_counts_at_once_and_for_every_process(shop):
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    shop.finish(shop.commit_and_push({"app.yaml": "port: 1\n"}))
    commit = shop.publish({"app.schema.json": json.dumps({"required": ["host"]})})
    assert shop.finish(shop.commit_and_push({"app.yaml": "port: 2\n"})).state == "SUCCEEDED"
    shop.rules, kept = (rule(segment="schema-registry"),), shop.rules
    payload = {"ref": "refs/heads/main", "after": commit, "commits": []}
    repository = {"repository": {"full_name": "acme/schemas"}}
    refreshed = shop.finish(shop.deliver("push", payload | repository))
    shop.rules = kept
    assert (refreshed.kind, refreshed.message) == ("schema_refresh", "schema_refreshed")
    task = shop.finish(shop.commit_and_push({"app.yaml": "port: 3\n"}))
    assert task.message == "schema_invalid"


def test_what_was_looked_up_is_asked_again_when_it_is_old(shop):
    now = [0.0]
    ports = {"schemas": Schemas(shop.folder / "own", ttl_s=300, clock=lambda: now[0])}
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    now[0] = 10_000_000_000.0  # far beyond the age of anything written today
    shop.finish(shop.commit_and_push({"app.yaml": "port: 1\n"}), **ports)
    shop.publish({"app.schema.json": json.dumps({"required": ["host"]})})
    task = shop.finish(shop.commit_and_push({"app.yaml": "port: 2\n"}), **ports)
    assert task.message == "schema_invalid"


def test_the_central_file_decides_what_another_file_is_checked_against(shop):
    """Sync invariant 30: `partita.json` cannot choose a file that has no schema."""
    shop.with_rules(allow_overrides=True)
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    named = '{"file_name": "free.yaml"}'
    task = shop.finish(shop.commit_and_push({"partita.json": named, "free.yaml": "port: many\n"}))
    assert (task.message, task.error.get("file")) == ("schema_invalid", "free.yaml")


def test_changes_of_a_key_that_the_schema_wants_logged_are_logged(shop, caplog):
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    shop.finish(shop.commit_and_push({"app.yaml": "port: 1\nhost: a\n"}))
    with caplog.at_level(logging.INFO):
        shop.finish(shop.commit_and_push({"app.yaml": "port: 2\nhost: b\n"}))
    told = [vars(r) for r in caplog.records if vars(r).get("event") == "key_changed"]
    assert [(each["key"], each["from"], each["to"]) for each in told] == [("port", "1", "2")]


def test_the_registrys_token_goes_to_its_host_and_nowhere_else(shop):
    """Sync invariants 24, 28."""
    shop.publish({"app.schema.json": json.dumps(PORTS)})
    shop.site.password = "another"
    shop.with_rules(strict_validation=True)
    task = shop.run(shop.commit_and_push({"app.yaml": "port: 1\n"}))
    assert task.error["code"] == "git_auth"
    assert TOKEN not in json.dumps([task.error, task.result, task.request])
    assert TOKEN.encode() not in b"".join(
        path.read_bytes() for path in shop.folder.rglob("config") if path.is_file()
    )
