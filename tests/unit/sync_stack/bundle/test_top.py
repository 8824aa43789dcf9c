"""The bundle as a whole: platforms, references, secret managers, limits, severities."""

from __future__ import annotations

import pytest

from readers.tree import Kind, Tree
from sync_stack.core.bundle.model import GatewayLimits, Rate, SchemaRegistry
from sync_stack.core.bundle.platforms import Flavor
from sync_stack.core.bundle.secret_managers import AppRoleAuth
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.bundle.validation import read_bundle
from tests.support.bundles import codes, read, read_changed, tree_of, valid, with_platform

TOKEN = {"token_auth": {"token": {"file": "/t"}}}


def test_a_file_without_bundle_says_so():
    reading = read_bundle(tree_of({"bundel": {}}), file="x.json")

    assert [str(entry) for entry in reading.complaints] == [
        "x.json: bundle: the file has no top-level field bundle [missing_field]"
    ]


def test_every_required_list_that_is_missing_is_named():
    assert codes(read({})) == [
        "bundle.datasources missing_field",
        "bundle.platforms missing_field",
        "bundle.rules missing_field",
    ]


def test_complaints_come_by_position_at_most_fifty():
    rows = tuple(
        Tree(kind=Kind.NUMBER, text="1", line=line, column=1) for line in range(200, 100, -1)
    )
    top = {"platforms": Tree(kind=Kind.LIST, items=rows, line=1, column=1)}
    root = Tree(kind=Kind.MAP, pairs={"bundle": Tree(kind=Kind.MAP, pairs=top, line=1, column=1)})
    lines = [entry.line for entry in read_bundle(root, file="x").complaints]

    assert len(lines) == 50
    assert lines == sorted(lines)


def test_strict_turns_every_warning_into_an_error():
    def change(bundle):
        bundle["monitoring"] = {"x": 1}

    assert codes(read_changed(change)) == ["bundle.monitoring no_effect?"]
    assert read_changed(change).bundle is not None
    strict = read_changed(change, strict=True)
    assert strict.bundle is None
    assert codes(strict) == ["bundle.monitoring no_effect"]


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://git.corp:8443/api/v3/", "https://git.corp:8443"),
        ("https://h/git/api/v4", "https://h/git"),
        ("http://[fd00::1]:3000/api/v1", "http://[fd00::1]:3000"),
    ],
)
def test_an_endpoint_is_reduced_to_the_web_base(written, base):
    made = valid(with_platform("github", tag="x", endpoint=written))

    assert made.platform("github-x").endpoint == base


@pytest.mark.parametrize(
    ("kind", "fields", "complaint"),
    [
        ("gitea", {}, "endpoint missing_field"),
        ("bitbucket", {"flavor": "datacenter"}, "endpoint missing_field"),
        ("gitlab", {"endpoint": "https://u:p@gitlab.com"}, "endpoint out_of_range"),
        ("gitlab", {"endpoint": "ftp://gitlab.com"}, "endpoint out_of_range"),
        ("gitlab", {"tag": "Ä"}, "tag out_of_range"),
        ("gitlab", {"flavor": "cloud"}, "flavor no_effect?"),
        ("gitlab", {"password": "p"}, "username missing_field"),
        ("gitlab", {"token": "t", "username": "u", "password": "p"}, "password mutually_exclusive"),
        ("gitlab", {"protocol": "ssh"}, "ssh_key missing_field"),
        ("gitlab", {"protocol": "ssh", "ssh_key": {}}, "ssh_key.private_key missing_field"),
        ("gitlab", {"verify_ssl": False}, "verify_ssl risky_setting?"),
        ("gitlab", {"max_retries": 3}, "max_retries no_effect?"),
        ("gitlab", {"secret": {"vault": "x"}}, "secret bad_secret"),
        ("gitlab", {"secret": 5}, "secret wrong_type"),
        ("gitlab", {"secret": {"ref": {"path": "../a", "key": "k"}}}, "secret.ref bad_secret"),
        ("gitlab", {"event_type_header": "X Y"}, "event_type_header out_of_range"),
    ],
)
def test_each_mistake_in_a_platform_is_named_with_its_place(kind, fields, complaint):
    assert f"bundle.platforms[1].{kind}.{complaint}" in codes(with_platform(kind, **fields))


def test_names_of_headers_and_events_are_of_the_kind_unless_written():
    made = valid(with_platform("gitlab", push_event_name="Push Hook"))
    gitlab, github = made.platform("gitlab"), made.platform("github")

    assert gitlab.event_type_header == ("X-Gitlab-Event",)
    assert gitlab.push_event_name == ("Push Hook",)
    assert gitlab.delivery_header == ("webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID")
    assert github.git_scm_signature == ("X-Hub-Signature-256",)


def test_a_bitbucket_data_center_has_its_own_names():
    fields = {"flavor": "FLAVOR_DATACENTER", "endpoint": "https://b.corp"}
    made = valid(with_platform("bitbucket", **fields)).platform("bitbucket")

    assert (made.flavor, made.push_event_name) == (Flavor.DATACENTER, ("repo:refs_changed",))
    assert made.delivery_header == ("X-Request-Id",)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"secret": "s", "endpoint": "http://git.example"}, "endpoint production_requirement"),
        ({"secret": "s", "endpoint": "file:///srv/git"}, "endpoint production_requirement"),
        ({"secret": "s", "protocol": "http"}, "endpoint production_requirement"),
        ({}, "secret production_requirement"),
    ],
)
def test_production_refuses_what_is_only_good_for_trying(fields, complaint):
    """Sync invariant 26: no webhook secret, no start."""

    def change(bundle):
        bundle["platforms"] = [{"github": fields}]

    found = codes(read_changed(change, production=True))
    assert f"bundle.platforms[0].github.{complaint}" in found
    assert read_changed(change).bundle is not None


@pytest.mark.parametrize("host", ["10.1.2.3", "gitea", "git.internal", "[fd00::1]", "127.0.0.1"])
def test_production_allows_http_inside(host):
    def change(bundle):
        bundle["platforms"] = [{"github": {"secret": "s", "endpoint": f"http://{host}:3000"}}]

    assert read_changed(change, production=True).bundle is not None


def test_references_to_datasources_check_their_kind():
    def change(bundle):
        bundle["celery_broker_datasource"] = "mongo"
        bundle["task_backend_datasource"] = "mongo"
        bundle["watcher_state_datasource"] = "redsi"

    assert codes(read_changed(change)) == [
        "bundle.celery_broker_datasource wrong_kind",
        "bundle.watcher_state_datasource unknown_reference",
    ]


def test_tags_in_global_tags_fill_references_that_are_absent():
    def change(bundle):
        bundle["datasources"][1]["redis"]["tag"] = "queue"
        bundle["global_tags"] = {"celery_broker": "queue", "team": "a"}

    reading = read_changed(change)

    assert codes(reading) == ["bundle.global_tags.celery_broker deprecated_name?"]
    assert valid(reading).task_broker_datasource == "redis-queue"


def test_limits_of_the_gateway():
    def change(bundle):
        bundle["max_webhook_body_bytes"] = 0
        bundle["gateway"] = {
            "rate_limit": {"per_ip": {"rate": 1.5, "burst": 3}},
            "breaker": {"open_for": "1m"},
            "replay_window": "10m",
            "trusted_proxies": ["10.0.0.0/8", "192.168.0.1"],
        }

    bundle = valid(read_changed(change))

    assert bundle.max_webhook_body_bytes == 10_485_760
    assert bundle.gateway == GatewayLimits(
        rate_per_ip=Rate(rate=1.5, burst=3),
        breaker_open_s=60,
        replay_window_s=600,
        trusted_proxies=("10.0.0.0/8", "192.168.0.1/32"),
    )


@pytest.mark.parametrize(
    ("gateway", "complaint"),
    [
        ({"forward_timeout": "21s"}, "forward_timeout out_of_range"),
        ({"trusted_proxies": ["x"]}, "trusted_proxies[0] out_of_range"),
        ({"rate_limit": {"global": {"rate": 5}}}, "rate_limit.global.burst missing_field"),
        ({"breaker": {"failures": 0}}, "breaker.failures out_of_range"),
    ],
)
def test_limits_out_of_range_are_refused(gateway, complaint):
    found = codes(read_changed(lambda bundle: bundle.update(gateway=gateway)))

    assert f"bundle.gateway.{complaint}" in found


def test_a_reference_to_a_secret_uses_the_only_manager():
    def change(bundle):
        bundle["secret_managers"] = [{"vault": {"endpoint": "https://v", **TOKEN}}]
        bundle["platforms"][0]["github"] = {
            "secret": {"ref": "webhooks/github#key"},
            "token": {"ref": {"path": "git", "key": "token"}},
        }

    platform = valid(read_changed(change)).platform("github")

    assert platform.secret == SecretRef(path="webhooks/github", key="key", manager="vault")
    assert platform.token == SecretRef(path="git", key="token", manager="vault")


def test_of_several_managers_one_must_be_named():
    def change(bundle, **fields):
        bundle["secret_managers"] = [
            {"vault": {"endpoint": "https://v", "tag": tag, **TOKEN}} for tag in ("a", "b")
        ]
        bundle["platforms"][0]["github"] = {"secret": {"ref": "a#b"}, **fields}

    assert codes(read_changed(change)) == ["bundle.platforms[0].github.secret bad_secret"]
    named = valid(read_changed(lambda bundle: change(bundle, secret_manager="vault-b")))
    assert named.platforms[0].secret == SecretRef(path="a", key="b", manager="vault-b")


def manager(**fields):
    return read_changed(
        lambda bundle: bundle.update(
            secret_managers=[{"vault": {"endpoint": "https://v/", **fields}}]
        )
    )


def test_ways_to_sign_in_at_a_vault():
    role = {"role_id": "r", "secret_id": "SECRET_ID", "secret_id_type": 2}
    made = valid(manager(approle_auth=role)).secret_manager("vault")

    assert made.endpoint == "https://v"
    assert made.auth == AppRoleAuth(
        role_id=SecretRef(value="r"), secret_id=SecretRef(env="SECRET_ID")
    )


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, " missing_field"),
        (
            {**TOKEN, "userpass_auth": {"username": "u", "password": "p"}},
            ".userpass_auth mutually_exclusive",
        ),
        ({"token_auth": {}}, ".token_auth.token missing_field"),
        ({"token_auth": {"token": {"ref": "a#b"}}}, ".token_auth.token bad_secret"),
        ({**TOKEN, "kv_version": 3}, ".kv_version out_of_range"),
        ({**TOKEN, "ssl_cert": "/c"}, ".ssl_key missing_field"),
        ({**TOKEN, "verify_ssl": False}, ".verify_ssl risky_setting?"),
    ],
)
def test_each_mistake_in_a_vault_is_named_with_its_place(fields, complaint):
    assert f"bundle.secret_managers[0].vault{complaint}" in codes(manager(**fields))


def test_a_schema_registry_names_a_platform():
    def change(bundle, platform="github"):
        bundle["schema_registry"] = {"platform": platform, "repo": "acme/schemas", "path": "a/b/"}

    assert valid(read_changed(change)).schema_registry == SchemaRegistry(
        platform="github", repo="acme/schemas", path="a/b"
    )
    wrong = read_changed(lambda bundle: change(bundle, "gitlab"))
    assert codes(wrong) == ["bundle.schema_registry.platform unknown_reference"]


def test_a_plain_secret_shows_in_no_text_of_the_bundle():
    """Sync invariant 24: neither repr nor a complaint repeats it."""

    def change(bundle):
        bundle["platforms"][0]["github"] = {"secret": "hunter2-hunter2", "tok": "hunter2-hunter2"}

    reading = read_changed(change)
    fine = valid(
        read_changed(lambda bundle: bundle["platforms"][0]["github"].update(token="hunter2"))
    )

    assert "hunter2" not in "".join(map(str, reading.complaints))
    assert "hunter2" not in repr(fine) + str(fine.platforms[0].token)
