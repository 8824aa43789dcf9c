"""What each kind of sink says when its server misbehaves: no silence counts as emptiness."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from sync_stack.core.bundle.datasources import DatasourceOptions, UpdateStrategy
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.ownership import PlanRefused
from sync_stack.core.sink import Sink, SinkConflict, SinkError
from sync_stack.sinks.configmap import ConfigMapOptions, OnConflict
from sync_stack.sinks.file import FileOptions
from sync_stack.sinks.redis import RedisMode, RedisOptions, RedisStructure
from sync_stack.sinks.redis.client import host_and_port
from sync_stack.sinks.s3 import ConditionalWrites, S3Options
from tests.contracts.sink import worlds
from tests.support import kubernetes_api, parts, s3_server, servers
from tests.support.kubernetes_api import Api
from tests.support.syncing import PLACE, Unit, prune

ABC = {"a": "1", "b": "2", "c": "3"}
PATH = "/api/v1/namespaces/apps/configmaps/shop-production"


OPENED: list[Sink] = []


def opened(kind: str, options: DatasourceOptions, **fields: Any) -> Sink:
    OPENED.append(worlds.opened(kind, options, **fields))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def options(server: str, **fields: Any) -> ConfigMapOptions:
    return ConfigMapOptions(namespace="apps", configmap_name="shop", api_server=server, **fields)


@pytest.fixture
def api() -> Iterator[Api]:
    with kubernetes_api.serving() as made:
        yield made


def configmap(api: Api, **fields: Any) -> Unit[Sink]:
    return Unit(opened("configmap", options(api.server, **fields)))


def unanswered(kind: str, address: str) -> Sink:
    limits = {"connect_timeout_s": 0.3, "timeout_s": 0.6}
    if kind == "redis":
        return opened("redis", RedisOptions(hosts=(address,)), **limits)
    if kind == "s3":
        made = S3Options(bucket="b", endpoint=f"http://{address}", force_path_style=True)
        return opened("s3", made, **limits)
    return opened("configmap", options(f"http://{address}"), **limits)


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["redis", "s3", "configmap"])
def test_a_server_that_says_nothing_is_a_timeout_within_the_limit(kind: str):
    """Sync invariant 14."""
    with servers.silent() as address:
        unit = Unit(unanswered(kind, address))
        began = time.monotonic()

        with pytest.raises(SinkError) as failed:
            unit.sync(ABC)

    assert failed.value.code == "sink_timeout"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", ["redis", "s3", "configmap"])
def test_a_server_that_is_away_is_unavailable_and_worth_a_retry(kind: str):
    """Sync invariant 14."""
    unit = Unit(unanswered(kind, f"127.0.0.1:{servers.free_port()}"))

    with pytest.raises(SinkError) as failed:
        unit.sync(ABC)

    assert failed.value.code == "sink_unavailable"
    assert failed.value.retryable


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "sink_auth"), (401, "sink_auth"), (500, "sink_unavailable"), (429, "sink_unavailable")],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refusal_of_the_api_server_names_verb_and_resource(api, method, status, code):
    unit = configmap(api)
    api.faults.append((method, status))
    verb = {"GET": "get", "POST": "create"}[method]

    with pytest.raises(SinkError, match=f"{verb} configmaps in namespace 'apps'") as failed:
        unit.sync(ABC)

    assert failed.value.code == code
    assert api.objects == {}


@pytest.mark.parametrize(("conflicts", "passes"), [(3, True), (4, False)])
def test_a_conflict_of_versions_is_planned_again_three_times(api, conflicts, passes):
    unit = configmap(api)
    unit.sync(ABC)
    api.faults += [("PUT", 409)] * conflicts

    if passes:
        unit.sync(ABC | {"a": "9"})
        assert unit.read().values == ABC | {"a": "9"}
        return
    with pytest.raises(SinkConflict) as failed:
        unit.sync(ABC | {"a": "9"})
    assert failed.value.code == "verify_failed"


def test_a_namespace_is_made_only_when_told(api):
    api.namespaces.clear()

    with pytest.raises(SinkError, match="no namespace 'apps'"):
        configmap(api).sync(ABC)
    configmap(api, create_namespace=True).sync(ABC)

    assert api.objects[PATH]["data"] == ABC


def test_an_immutable_configmap_and_one_that_grows_too_large_are_refused(api):
    unit = configmap(api)
    unit.sync(ABC)

    with pytest.raises(SinkError) as large:
        unit.sync({"a": "x" * 1_048_576})
    api.by_hand(PATH, {}, immutable=True)
    with pytest.raises(SinkError) as immutable:
        unit.sync({"a": "9"})

    assert large.value.code == "destination_too_large"
    assert immutable.value.code == "immutable_destination"
    assert api.objects[PATH]["data"] == ABC


def test_patch_keeps_foreign_keys_and_binary_data_and_takes_over_what_is_unlabeled(api):
    """Sync invariants 13 and 23."""
    api.by_hand(PATH, {"theirs": "1"}, binaryData={"blob": "AA=="})
    unit = configmap(api)

    unit.sync(ABC, prune=prune())
    unit.sync({}, prune=prune())

    assert api.objects[PATH]["data"] == {"theirs": "1"}
    assert api.objects[PATH]["binaryData"] == {"blob": "AA=="}
    assert api.objects[PATH]["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "partita"}


@pytest.mark.parametrize("on_conflict", [OnConflict.REPLACE, OnConflict.FAIL])
def test_the_others_refuse_what_is_unlabeled(api, on_conflict):
    """Sync invariant 23."""
    api.by_hand(PATH, {})

    with pytest.raises(PlanRefused) as refused:
        configmap(api, on_conflict=on_conflict).sync(ABC)

    assert refused.value.code == "unowned_destination"


def test_replace_prunes_and_keeps_foreign_keys_and_fail_wants_none(api):
    """Sync invariant 13."""
    unit = configmap(api, on_conflict=OnConflict.REPLACE)
    unit.sync(ABC)
    api.by_hand(PATH, {"theirs": "1"})

    unit.sync({"a": "1", "b": "2"}, prune=prune(enabled=False))

    assert api.objects[PATH]["data"] == {"a": "1", "b": "2", "theirs": "1"}
    alone = configmap(api, on_conflict=OnConflict.FAIL)
    with pytest.raises(PlanRefused) as refused:
        alone.sync(ABC)
    assert refused.value.keys == ("theirs",)


def test_two_files_of_one_name_are_a_conflict(api):
    """Sync invariant 20."""
    unit = Unit(opened("configmap", options(api.server), update_strategy=UpdateStrategy.FILE))
    both = unit.desired({"a": "1"}, "x/app.yaml") | unit.desired({"b": "2"}, "y/app.yaml")

    with pytest.raises(PlanRefused) as refused:
        unit.sync_keys(both)

    assert refused.value.code == "key_conflict"


def test_a_kubeconfig_leads_to_its_server_with_its_token(api, tmp_path: Path):
    path = tmp_path / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.server}}],
        "users": [{"name": "u", "user": {"token": "kube-token"}}],
    }
    path.write_text(json.dumps(config))
    made = ConfigMapOptions(namespace="apps", configmap_name="shop", kubeconfig_path=str(path))

    Unit(opened("configmap", made)).sync(ABC)

    assert {credential for _, _, credential in api.requests} == {"Bearer kube-token"}


@pytest.mark.parametrize("strategy", [UpdateStrategy.KEY_VALUE, UpdateStrategy.DOCUMENT])
def test_the_metadata_of_an_emptied_redis_destination_goes_and_comes_back(strategy):
    address = parts.need("TEST_REDIS_ADDR", "a Redis server")
    host, _, port = address.rpartition(":")
    client = Redis(host=host, port=int(port), db=7)
    made = RedisOptions(hosts=(address,), db=7)
    name = f"test:gone-{strategy.value.lower()}"
    place = replace(PLACE, rendered=name)
    unit = Unit(opened("redis", made, update_strategy=strategy), place=place)
    client.delete(name, f"{name}:__partita__")

    unit.sync(ABC, prune=prune())
    kept = client.ttl(f"{name}:__partita__")
    unit.sync({}, prune=prune())
    emptied = client.ttl(f"{name}:__partita__")
    unit.sync(ABC, prune=prune())
    again = client.ttl(f"{name}:__partita__")

    client.delete(name, f"{name}:__partita__")
    client.close()
    assert (kept, again) == (-1, -1)
    assert 0 < emptied <= 3600


def bucket() -> str:
    name = f"faults{time.monotonic_ns()}"
    s3_server.client().create_bucket(Bucket=name)
    return name


def test_s3_refuses_an_object_that_a_higher_generation_wrote():
    """Sync invariant 7."""
    unit = Unit(opened("s3", S3Options(bucket=bucket(), **s3_server.options())))
    unit.generation = 8
    unit.sync(ABC)
    unit.generation = 3

    with pytest.raises(SinkError) as refused:
        unit.sync(ABC | {"a": "9"})

    assert refused.value.code == "stale_generation"


def test_s3_probes_once_and_leaves_nothing_behind():
    name = bucket()
    made = S3Options(
        bucket=name, conditional_writes=ConditionalWrites.REQUIRED, **s3_server.options()
    )

    Unit(opened("s3", made, update_strategy=UpdateStrategy.DOCUMENT)).sync(ABC)

    listed = s3_server.client().list_objects_v2(Bucket=name)["Contents"]
    assert [entry["Key"] for entry in listed] == ["config.json"]


def test_a_bucket_that_does_not_exist_is_no_empty_destination():
    """Sync invariant 14."""
    unit = Unit(opened("s3", S3Options(bucket="absent", **s3_server.options())))

    with pytest.raises(SinkError) as failed:
        unit.sync(ABC)

    assert failed.value.code == "destination_invalid"


def document_file(root: Path, **fields: Any) -> Unit[Sink]:
    made = FileOptions(root=str(root), **fields)
    return Unit(opened("file", made, update_strategy=UpdateStrategy.DOCUMENT))


def test_no_link_leads_out_of_the_root(tmp_path: Path):
    """Sync invariant 29."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "config-production.json").symlink_to(outside / "config.json")
    unit = document_file(root)

    with pytest.raises(PlanRefused) as refused:
        unit.sync(ABC, adopt=True)

    assert refused.value.code == "unowned_destination"
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_our_file_is_replaced_and_what_it_leads_to_stays(tmp_path: Path):
    """Sync invariants 13 and 29."""
    unit = document_file(tmp_path / "root")
    unit.sync(ABC)
    theirs = tmp_path / "theirs.json"
    theirs.write_text("theirs")
    path = tmp_path / "root" / "config-production.json"
    path.unlink()
    path.symlink_to(theirs)

    unit.sync(ABC, heal=True)

    assert (path.is_symlink(), theirs.read_text()) == (False, "theirs")
    assert unit.read().values == ABC


def test_a_folder_with_files_in_the_place_of_our_file_is_drift_and_is_never_deleted(tmp_path: Path):
    """Sync invariant 13."""
    unit = document_file(tmp_path)
    unit.sync(ABC)
    path = tmp_path / "config-production.json"
    path.unlink()
    path.mkdir()
    (path / "theirs").write_text("1")

    with pytest.raises(SinkError) as refused:
        unit.sync(ABC, heal=True)

    assert refused.value.code == "unowned_destination"
    assert unit.read().mistyped == {path.name}
    assert [each.name for each in path.iterdir()] == ["theirs"]


def test_a_link_in_the_place_of_a_folder_is_drift_and_is_not_followed(tmp_path: Path):
    """Sync invariant 29."""
    made = FileOptions(root=str(tmp_path / "root"))
    unit = Unit(opened("file", made, update_strategy=UpdateStrategy.KEY_VALUE))
    unit.sync(ABC)
    outside = tmp_path / "outside"
    (tmp_path / "root" / "config-production").rename(outside)
    (tmp_path / "root" / "config-production").symlink_to(outside)

    live = unit.read()
    with pytest.raises(SinkError) as refused:
        unit.sync({"a": "9"}, heal=True)

    assert live.mistyped == {f"config-production/{key}" for key in ABC}
    assert refused.value.code == "destination_invalid"
    assert (outside / "a").read_text() == "1"


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_configured(tmp_path: Path):
    unit = document_file(tmp_path, file_mode=0o604)
    unit.sync(ABC)
    path = tmp_path / "config-production.json"
    first = path.stat().st_mode & 0o777
    path.chmod(0o600)

    unit.sync({"a": "2"}, prune=prune())

    assert (oct(first), oct(path.stat().st_mode & 0o777)) == ("0o604", "0o600")
    assert not [name for name in tmp_path.iterdir() if name.suffix == ".tmp"]


def test_names_of_environment_variables_are_checked_and_values_quoted(tmp_path: Path):
    unit = document_file(tmp_path, format="env")

    with pytest.raises(SinkError) as refused:
        unit.sync({"a.b": "1"})
    unit.ledger = None
    unit.sync({"A_B": 'two\n"lines" $x'})

    assert refused.value.code == "key_invalid"
    assert unit.read().values == {"A_B": 'two\n"lines" $x'}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("Redis", "redis", 6379), ("r:7000", "r", 7000), ("[::1]:7000", "::1", 7000)],
)
def test_hosts_of_redis_may_leave_the_port_out(text, host, port):
    assert host_and_port(text) == (host, port)


def test_a_cluster_keeps_data_and_metadata_in_one_slot():
    made = RedisOptions(mode=RedisMode.CLUSTER, data_structure=RedisStructure.STRING)
    unit = Unit(opened("redis", made))

    with pytest.raises(SinkError, match="hash tag"):
        _ = unit.destination


def test_an_error_never_shows_the_password():
    made = RedisOptions(hosts=("127.0.0.1:1",), password=SecretRef(value="secret-word"))

    with pytest.raises(SinkError) as failed:
        Unit(opened("redis", made)).sync(ABC)

    assert "secret-word" not in str(failed.value)
