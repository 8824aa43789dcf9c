"""The modules of the guides are all that a new sink, platform or format needs (decision 0021)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from sync_stack.core.bundle.datasources import datasource_kinds
from sync_stack.core.bundle.platforms import platform_kinds
from sync_stack.core.formats import formats
from sync_stack.core.git_platform import GitPlatform, normalize
from sync_stack.sinks.open_sinks import open_sink
from tests.support import bundle_reference
from tests.support.bundles import changed, read, read_changed, valid, with_datasource
from tests.support.plug_ins import plug_in_of_guide
from tests.support.sync_world import World, rule
from tests.sync.gateway.world import answer
from tests.sync.gateway.world import bundle as gateway_bundle
from tests.sync.gateway.world import world as gateway_world

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_sink_is_a_file(tmp_path, transactional_db):
    database = str(tmp_path / "settings.db")
    with plug_in_of_guide("adding-a-sink.md", datasource_kinds, tmp_path) as kind:
        bundle = valid(with_datasource(kind, path=database))
        sink = open_sink(bundle.datasource("sqlite"), lambda ref: ref.value)
        world = World(tmp_path, sink=sink)

        task = world.run(world.commit_and_push({"app.yaml": "db: {host: a, port: 1}\n"}))

        assert (task.state, task.message) == ("SUCCEEDED", "completed")
        with closing(sqlite3.connect(database)) as db:
            rows = set(db.execute("SELECT place, key, value FROM settings"))
        assert rows == {("production-shop", "db.host", "a"), ("production-shop", "db.port", "1")}
        assert "## Datasource `sqlite`" in bundle_reference.reference()
        assert "| sqlite | one row per key |" in bundle_reference.sinks()
        (missing,) = with_datasource(kind).errors
        assert missing.message == "path is required"

    assert with_datasource("sqlite").errors[0].code == "unknown_kind"


async def test_a_git_platform_is_a_file(tmp_path):
    def name_it(bundle):
        bundle["platforms"] = [{"gitee": {"secret": "s3cret-key"}}]
        bundle["rules"][0]["platform"] = "gitee"

    push = {
        "ref": "refs/heads/main",
        "before": "0" * 40,
        "after": COMMIT,
        "repository": {"full_name": "acme/shop"},
    }
    with plug_in_of_guide("adding-a-git-platform.md", platform_kinds, tmp_path) as kind:
        platform = valid(read_changed(name_it)).platform(kind)
        async with gateway_world(gateway_bundle(platform)) as gw:
            headers = {"X-Gitee-Event": "Push Hook", "Content-Type": "application/json"}
            wrong, right = [
                await gw.client.post(
                    "/webhooks/mongo",
                    content=json.dumps(push),
                    headers=headers | {"X-Gitee-Token": token},
                )
                for token in ("another-key", "s3cret-key")
            ]

            assert answer(wrong) == (401, "GW_SIGNATURE_INVALID")
            assert answer(right) == (202, "accepted")
            (call,) = gw.orchestrator.calls
            assert (call.platform, call.event) == ("gitee", "Push Hook")

        (event,) = normalize(platform, "Push Hook", push)
        assert (event.branch, event.commit) == ("main", COMMIT)
        assert event.clone_url == "https://gitee.com/acme/shop.git"
        assert "| gitee | https://gitee.com | X-Gitee-Event |" in bundle_reference.reference()


def test_every_git_platform_says_how_it_verifies_signatures():
    assert "verify_signature" in GitPlatform.__abstractmethods__


def test_a_format_is_a_file(tmp_path, transactional_db):
    with plug_in_of_guide("adding-a-format.md", formats, tmp_path) as kind:
        named = changed(lambda bundle: bundle["rules"][0].update(file_format=kind))
        assert valid(read(named)).rule("shop").file_format == "csv"
        world = World(tmp_path, rules=(rule(file_name="app.csv"),))

        task = world.run(world.commit_and_push({"app.csv": 'db.host,a\ndb.motto,"b, c"\n'}))

        assert (task.state, task.message) == ("SUCCEEDED", "completed")
        assert world.values() == {"db.host": "a", "db.motto": "b, c"}
        broken = world.run(world.commit_and_push({"app.csv": "db.host,a\ndb.host,b\n"}))
        assert (broken.error["code"], broken.error["line"]) == ("parse_error", 2)
        valid(with_datasource("file", root="/srv", format="csv"))
        assert "| csv | `*.csv` |" in bundle_reference.file_formats()


@pytest.mark.parametrize("registry", [datasource_kinds, platform_kinds, formats])
def test_a_name_is_registered_once(registry):
    known = next(iter(registry))

    with pytest.raises(ValueError, match="registered twice"):
        registry.register(known)(registry[known])
