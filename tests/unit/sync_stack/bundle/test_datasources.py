"""Datasources of a bundle: kinds, aliases, what excludes what."""

from __future__ import annotations

import pytest

from sync_stack.configuration.bundle_file import bundle_of, read_text
from sync_stack.core.bundle.datasources import OutputShape, UpdateStrategy
from sync_stack.sinks.configmap import ConfigMapOptions
from sync_stack.sinks.file import FileOptions
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.redis import RedisMode, RedisOptions, RedisStructure
from sync_stack.sinks.s3 import S3Options
from tests.support.bundles import codes, read_changed, valid, with_datasource

KEYS = {"access_key_id": "a" * 20, "secret_access_key": {"env": "K"}}
CONFIGMAP = {"namespace": "apps", "configmap_name": "settings"}


BUNDLE = """bundle: {
	platforms: [{github: {tag: "", secret: "a-webhook-secret"}}]
	datasources: [{mongo: {tag: "", endpoint: "mongodb://mongo:27017", host: "mongo"}}, {redis: {
		%s
	}}]
	rules: [{platform: "github", datasource: "mongo", repositories: ["acme/*"], file_name: "a.yaml"
		branch_map: main: "production"}]
}
"""


def added(kind, **fields):
    return valid(with_datasource(kind, tag="x", **fields)).datasource(f"{kind}-x")


def test_a_mongo_datasource_by_connection_string():
    made = added("mongo", uri="mongodb+srv://u:pw@m.example/?x=y", tls_enabled=True)

    assert made.update_strategy is UpdateStrategy.KEY_VALUE
    assert made.options == MongoOptions(endpoint="mongodb+srv://u:pw@m.example/?x=y", ssl=True)
    assert "pw" not in repr(made)


def test_a_mongo_datasource_by_hosts():
    assert added("mongo", host="m").options.hosts == ("m:27017",)
    assert added("mongo", host="m", port=1).options.hosts == ("m:1",)
    assert added("mongo", hosts=["a", "b:2", "[::1]"]).options.hosts == (
        "a:27017",
        "b:2",
        "[::1]:27017",
    )


@pytest.mark.parametrize(
    "beside",
    [
        {"host": "M.example", "port": 27017},
        {"host": "m.example"},
        {"port": 27017},
        {"hosts": ["m.example", "[::1]:2"]},
    ],
)
def test_hosts_beside_a_connection_string_may_repeat_it(beside):
    made = added("mongo", endpoint="mongodb://u:p%40w@m.example,[::1]:2/?x=y", **beside)

    assert made.options == MongoOptions(endpoint="mongodb://u:p%40w@m.example,[::1]:2/?x=y")


def test_the_name_of_an_srv_record_has_no_port_to_disagree_with():
    made = added("mongo", endpoint="mongodb+srv://m.example", host="m.example", port=27017)

    assert made.options == MongoOptions(endpoint="mongodb+srv://m.example")


@pytest.mark.parametrize(
    ("kind", "fields", "attribute", "value"),
    [
        ("redis", {"update_strategy": "STRATEGY_KEY_VALUE"}, "update_strategy", "KEY_VALUE"),
        ("redis", {"update_strategy": "strategy_document"}, "update_strategy", "DOCUMENT"),
        ("redis", {"update_strategy": "UPDATE_STRATEGY_FILE"}, "update_strategy", "FILE"),
        ("redis", {"update_strategy": "STRATEGY_UNSPECIFIED"}, "update_strategy", "KEY_VALUE"),
        ("redis", {"mode": "DEPLOYMENT_MODE_STANDALONE"}, "mode", "STANDALONE"),
        ("redis", {"deployment_mode": "DEPLOYMENT_MODE_CLUSTER"}, "mode", "CLUSTER"),
        ("redis", {"mode": "MODE_CLUSTER"}, "mode", "CLUSTER"),
        ("redis", {"mode": "DEPLOYMENT_MODE_UNSPECIFIED"}, "mode", "STANDALONE"),
        ("configmap", {"on_conflict": "CONFLICT_STRATEGY_FAIL"}, "on_conflict", "FAIL"),
        ("configmap", {"on_conflict": "ON_CONFLICT_REPLACE"}, "on_conflict", "REPLACE"),
        ("configmap", {"data_format": "DATA_FORMAT_YAML"}, "data_format", "yaml"),
    ],
)
def test_words_of_protobuf_mean_the_same_values(kind, fields, attribute, value):
    made = added(kind, **(CONFIGMAP if kind == "configmap" else {}), **fields)

    holder = made if attribute == "update_strategy" else made.options
    assert getattr(holder, attribute) == value


@pytest.mark.parametrize(
    ("field", "line"),
    [
        (
            'mode: "DEPLOYMENT_MODE_RING"',
            "config.cue:4:9: bundle.datasources[1].redis.mode: unknown value "
            '"DEPLOYMENT_MODE_RING" (known: CLUSTER, SENTINEL, STANDALONE) [bad_enum]',
        ),
        (
            'update_strategy: "MODE_KEY_VALUE"',
            "config.cue:4:20: bundle.datasources[1].redis.update_strategy: unknown value "
            '"MODE_KEY_VALUE" (known: DOCUMENT, FILE, KEY_VALUE) [bad_enum]',
        ),
    ],
)
def test_an_unknown_word_is_told_with_its_place_and_the_known_ones(tmp_path, field, line):
    path = tmp_path / "config.cue"
    path.write_text(BUNDLE % field)

    (found,) = bundle_of(read_text(path)).errors

    assert str(found).replace(str(path), "config.cue") == line


def test_an_empty_tag_is_no_tag():
    made = valid(with_datasource("file", tag="", root="/srv"))

    assert [each.name for each in made.datasources] == ["mongo", "redis", "file"]


def test_times_are_seconds():
    made = added("mongo", host="m", connect_timeout_ms=1500, timeout="500ms")

    assert (made.connect_timeout_s, made.timeout_s) == (1.5, 0.5)


def test_a_redis_datasource_has_the_documented_defaults():
    made = added("redis")

    assert made.options == RedisOptions(hosts=("localhost:6379",))
    assert made.update_strategy is UpdateStrategy.KEY_VALUE


@pytest.mark.parametrize(
    ("fields", "strategy", "structure"),
    [
        ({"update_strategy": "DOCUMENT"}, UpdateStrategy.DOCUMENT, RedisStructure.JSON),
        ({"data_structure": 3}, UpdateStrategy.DOCUMENT, RedisStructure.JSON),
        ({"data_structure": 0}, UpdateStrategy.KEY_VALUE, RedisStructure.HASH),
        ({"data_structure": "string"}, UpdateStrategy.KEY_VALUE, RedisStructure.STRING),
        ({"update_strategy": 3}, UpdateStrategy.FILE, RedisStructure.HASH),
        ({"update_strategy": 0}, UpdateStrategy.KEY_VALUE, RedisStructure.HASH),
    ],
)
def test_strategy_and_structure_of_redis_agree(fields, strategy, structure):
    made = added("redis", **fields)

    assert (made.update_strategy, made.options.data_structure) == (strategy, structure)


def test_a_redis_cluster_of_several_hosts():
    made = added("redis", hosts=["a:1", "b"], deployment_mode="cluster", tls_ca="/ca", database=0)

    assert made.options.hosts == ("a:1", "b:6379")
    assert made.options.mode is RedisMode.CLUSTER
    assert made.options.tls_ca_cert == "/ca"


def test_s3_with_an_endpoint_uses_paths_for_buckets():
    made = added("s3", bucket="configs", endpoint_url="http://minio:9000/", **KEYS)

    assert isinstance(made.options, S3Options)
    assert (made.options.endpoint, made.options.force_path_style) == ("http://minio:9000", True)
    assert made.update_strategy is UpdateStrategy.DOCUMENT
    assert not added("s3", bucket="configs", use_iam_role=True).options.force_path_style


@pytest.mark.parametrize(
    ("kind", "fields", "strategy"),
    [
        ("s3", {"bucket": "abc", "one_file_per_key": True, **KEYS}, UpdateStrategy.KEY_VALUE),
        ("configmap", {**CONFIGMAP}, UpdateStrategy.KEY_VALUE),
        ("configmap", {**CONFIGMAP, "flatten_to_keys": False}, UpdateStrategy.DOCUMENT),
        ("file", {"root": "/srv"}, UpdateStrategy.DOCUMENT),
    ],
)
def test_each_kind_has_its_words_for_the_strategy(kind, fields, strategy):
    assert added(kind, **fields).update_strategy is strategy


def test_configmap_and_file_options():
    configmap = added(
        "configmap", **CONFIGMAP, kubeconfig="/k", on_conflict=1, output_shape="nested"
    )
    file = added("file", base_path="/srv/x", file_mode="0600", format="ENV")

    assert isinstance(configmap.options, ConfigMapOptions)
    assert (configmap.options.kubeconfig_path, configmap.options.on_conflict) == ("/k", "REPLACE")
    assert configmap.options.env_as_name_suffix is None
    assert configmap.output_shape is OutputShape.NESTED
    assert file.options == FileOptions(root="/srv/x", file_mode=0o600, format="env")


@pytest.mark.parametrize(
    ("kind", "fields", "complaint"),
    [
        ("mongo", {}, "endpoint missing_field"),
        ("mongo", {"endpoint": "redis://x"}, "endpoint out_of_range"),
        ("mongo", {"endpoint": "mongodb://m", "host": "other"}, "host mutually_exclusive"),
        ("mongo", {"endpoint": "mongodb://m", "port": 27018}, "port mutually_exclusive"),
        (
            "mongo",
            {"endpoint": "mongodb://a,b:1", "hosts": ["a", "b:2"]},
            "hosts mutually_exclusive",
        ),
        ("mongo", {"host": "a", "hosts": ["a"]}, "host mutually_exclusive"),
        ("mongo", {"endpoint": "mongodb://m", "password": "p"}, "username missing_field"),
        ("mongo", {"host": "m", "max_pool_size": 0}, "max_pool_size out_of_range"),
        ("mongo", {"host": "m", "timeout": "11s"}, "timeout out_of_range"),
        (
            "mongo",
            {"host": "m", "ssl_allow_invalid_certificates": True},
            "ssl_allow_invalid_certificates risky_setting?",
        ),
        ("redis", {"db": 16}, "db out_of_range"),
        ("redis", {"db": 1.5}, "db wrong_type"),
        ("redis", {"port": "6379"}, "port wrong_type"),
        ("redis", {"db": 1, "database": 1}, "database mutually_exclusive"),
        ("redis", {"mode": "SENTINEL", "hosts": ["a"]}, "sentinel_master missing_field"),
        ("redis", {"hosts": ["a", "b"]}, "hosts mutually_exclusive"),
        ("redis", {"ttl": "soon"}, "ttl bad_duration"),
        ("redis", {"insecure_skip_verify": True}, "insecure_skip_verify risky_setting?"),
        (
            "redis",
            {"update_strategy": "DOCUMENT", "data_structure": "HASH"},
            "data_structure mutually_exclusive",
        ),
        ("redis", {"password": {"env": "A", "file": "/b"}}, "password bad_secret"),
        ("redis", {"password": ""}, "password bad_secret"),
        ("redis", {"password": {"ref": "a/b#k"}}, "password bad_secret"),
        ("redis", {"prot": 1}, "prot unknown_field"),
        ("s3", {**KEYS}, "bucket missing_field"),
        ("s3", {"bucket": "abc"}, "access_key_id missing_field"),
        ("s3", {"bucket": "abc", "use_iam_role": True, **KEYS}, "use_iam_role mutually_exclusive"),
        (
            "s3",
            {"bucket": "abc", **KEYS, "one_file_per_key": True, "update_strategy": 2},
            "one_file_per_key mutually_exclusive",
        ),
        ("s3", {"bucket": "abc", **KEYS, "kms_key_id": "k"}, "kms_key_id no_effect?"),
        ("configmap", {"namespace": "a"}, "configmap_name missing_field"),
        ("configmap", {**CONFIGMAP, "api_server": "https://k"}, "token missing_field"),
        ("configmap", {**CONFIGMAP, "client_cert": "x"}, "client_key missing_field"),
        ("file", {"root": "relative"}, "root out_of_range"),
        ("file", {"root": "/a/../b"}, "root out_of_range"),
        ("file", {"root": "/a", "path": "/b"}, "path mutually_exclusive"),
        ("file", {"root": "/a", "file_mode": "0999"}, "file_mode out_of_range"),
    ],
)
def test_each_mistake_is_named_with_its_place(kind, fields, complaint):
    found = codes(with_datasource(kind, tag="x", **fields))

    assert f"bundle.datasources[2].{kind}.{complaint}" in found


def test_an_item_with_several_kinds_counts_as_one_a_kind():
    def change(bundle):
        bundle["datasources"] = [{"mongo": {"host": "m"}, "redis": {}}]

    assert [made.name for made in valid(read_changed(change)).datasources] == ["mongo", "redis"]


def test_two_datasources_of_one_name_are_refused():
    reading = with_datasource("redis", host="other")

    assert codes(reading) == ["bundle.datasources[2].redis duplicate_name"]


def test_an_unknown_kind_is_an_error_that_lists_the_known_ones():
    reading = with_datasource("rediss")

    assert [str(entry) for entry in reading.complaints] == [
        'config.cue: bundle.datasources[2].rediss: unknown kind "rediss" (known: configmap, file, '
        'mongo, redis, s3; did you mean "redis"?) [unknown_kind]'
    ]
