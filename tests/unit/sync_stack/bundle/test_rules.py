"""Rules of a bundle: references, identity, what their fields mean together."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.file_maps import FileEnvironment
from sync_stack.core.bundle.rules import (
    Cleanup,
    CleanupAction,
    KeyFormat,
    Prune,
    SyncMode,
    Variable,
    VariableForm,
)
from tests.support.bundles import codes, read_changed, valid, with_rule

RULE = "bundle.rules[0]"


def rule_of(reading):
    return valid(reading).rules[0]


def test_a_small_rule_has_the_documented_defaults():
    rule = rule_of(with_rule())

    assert (rule.tenant, rule.root_key, rule.sync_mode) == ("default", None, SyncMode.AUTO)
    assert rule.prune == Prune()
    assert rule.cleanup == Cleanup()
    assert (rule.max_file_bytes, rule.max_changed_files, rule.retry_backoff_s) == (2**20, 500, 2.0)
    assert (rule.segment, rule.key_format, rule.env_as_collection) == ("mongo", None, None)


def test_an_unknown_datasource_is_named_with_the_known_ones_and_the_nearest():
    reading = with_rule(datasource="redi")

    assert str(reading.complaints[0]) == (
        f'config.cue: {RULE}.datasource: unknown datasource "redi" '
        '(known: mongo, redis; did you mean "redis"?) [unknown_reference]'
    )


def test_a_bare_tag_resolves_where_it_is_unique_and_stays_the_route_segment():
    def tag(bundle):
        bundle["datasources"].append({"redis": {"host": "r", "tag": "live"}})
        bundle["rules"][0]["datasource"] = "live"

    reading = read_changed(tag)
    rule = rule_of(reading)

    assert codes(reading) == [f"{RULE}.datasource reference_by_tag?"]
    assert (rule.datasource, rule.segment) == ("redis-live", "live")
    assert valid(reading).rules_of_segment("live") == (rule,)


def test_the_path_of_the_schema_registry_is_no_path_of_a_rule():
    def tag(bundle):
        bundle["datasources"].append({"redis": {"host": "r", "tag": "schema-registry"}})
        bundle["rules"][0]["datasource"] = "schema-registry"

    reading = read_changed(tag)

    assert f"{RULE}.datasource duplicate_name" in codes(reading)
    assert any("/webhooks/schema-registry is for" in str(each) for each in reading.complaints)


def test_a_tag_of_two_datasources_resolves_to_none():
    def tag(bundle):
        for kind in ("redis", "mongo"):
            bundle["datasources"].append(
                {
                    kind: {"tag": "live", "endpoint": "mongodb://m"}
                    if kind == "mongo"
                    else {"tag": "live"}
                }
            )
        bundle["rules"][0]["datasource"] = "live"

    assert f"{RULE}.datasource unknown_reference" in codes(read_changed(tag))


def test_the_default_name_says_what_is_synced_where_to():
    def nameless(**fields):
        def change(bundle):
            del bundle["rules"][0]["name"]
            bundle["rules"][0].update(fields)

        return rule_of(read_changed(change)).name

    assert nameless() == nameless(self_heal=True)
    assert nameless().startswith("github.mongo.")
    assert len(nameless().rpartition(".")[2]) == 8
    assert len({nameless(), nameless(file_name="b.yaml"), nameless(repositories=["b/*"])}) == 3


def test_two_rules_of_one_identity_are_refused():
    reading = read_changed(lambda bundle: bundle["rules"].append(dict(bundle["rules"][0])))

    assert codes(reading) == ["bundle.rules[1].name duplicate_rule"]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"repositories": []}, ".repositories out_of_range"),
        ({"repositories": ["acme"]}, ".repositories[0] bad_glob"),
        ({"repositories": ["acme/***"]}, ".repositories[0] bad_glob"),
        ({"repositories": ["acme/.*"]}, ".repositories[0] looks_like_regex?"),
        ({"repositories": "acme/*"}, ".repositories wrong_type"),
        ({"name": "Shop"}, ".name out_of_range"),
        ({"file_name": "../x.yaml"}, ".file_name bad_glob"),
        ({"file_name": "conf/*.yaml"}, ".file_name bad_glob"),
        ({"branch_map": {"main": "a/b"}}, ".branch_map.main out_of_range"),
        ({"branch_map": {"ma in": "a"}}, '.branch_map."ma in" bad_glob'),
        ({"branch_map": {"a": "x", "b": "x"}}, ".branch_map.b risky_setting?"),
        ({"destination_template": "{repo.x}"}, ".destination_template bad_template"),
        ({"destination_template": "{nope}"}, ".destination_template bad_template"),
        ({"destination_template": "}"}, ".destination_template bad_template"),
        ({"self_heal": "true"}, ".self_heal wrong_type"),
        ({"sync_mode": "SOMETIMES"}, ".sync_mode bad_enum"),
        ({"sync_mode": 9}, ".sync_mode bad_enum"),
        ({"sync_mode": "FULL"}, ".sync_mode deprecated_name?"),
        ({"retry_backoff": "-1s"}, ".retry_backoff bad_duration"),
        ({"retry_backoff": "2h"}, ".retry_backoff out_of_range"),
        ({"max_file_bytes": 16 * 2**20 + 1}, ".max_file_bytes out_of_range"),
        ({"tenant": "a..b"}, ".tenant out_of_range"),
        ({"tenant": "a", "tenant_id": "b"}, ".tenant_id mutually_exclusive"),
        ({"key_format": "flat"}, ".key_format bad_enum"),
        ({"env_as_prefix": True}, ".env_as_prefix no_effect?"),
        ({"prune": {"last": True}}, ".prune.last no_effect?"),
        ({"prune": {"max_delete_ratio": 2}}, ".prune.max_delete_ratio out_of_range"),
        (
            {"prune": {"protection": ["a"]}, "prune_protection": ["b"]},
            ".prune_protection mutually_exclusive",
        ),
        ({"pr_from_forks": True}, ".pr_from_forks no_effect?"),
        ({"pr_from_forks": True, "env_as_pr": True}, ".pr_from_forks risky_setting?"),
        ({"cleanup": {"on_tag_delete": "prune"}}, ".cleanup.on_tag_delete no_effect?"),
        ({"slef_heal": True}, ".slef_heal unknown_field"),
        ({"something_else": True}, ".something_else unknown_field?"),
        ({"secret_manager": "vault"}, ".secret_manager unknown_reference"),
        ({"allow_overrides": ["tenant"]}, ".allow_overrides[0] bad_enum"),
        ({"variables_map": {"A": {"from": "x", "literal": "y"}}}, ".variables_map.A wrong_type"),
        ({"repo_url": "https://github.com/a/b.git"}, ".repo_url mutually_exclusive"),
        ({"repo_url": "https://u:p@github.com/a/b.git"}, ".repo_url out_of_range"),
        ({"platform": None}, ".platform wrong_type"),
    ],
)
def test_each_mistake_is_named_with_its_place(fields, complaint):
    assert f"{RULE}{complaint}" in codes(with_rule(**fields))


def test_a_template_with_env_needs_an_environment_source():
    def change(bundle):
        del bundle["rules"][0]["branch_map"]
        bundle["rules"][0]["destination_template"] = "{env}-{repo}"

    assert codes(read_changed(change)) == [f"{RULE}.destination_template env_source_missing"]


def test_a_clone_url_of_another_host_is_refused():
    fields = {"repositories": ["acme/shop"], "repo_url": "https://evil.example/acme/shop.git"}

    assert codes(with_rule(**fields)) == [f"{RULE}.repo_url out_of_range"]


@pytest.mark.parametrize("url", ["https://github.com/a/b.git", "git@github.com:a/b.git"])
def test_a_clone_url_of_the_platforms_host_is_kept(url):
    assert rule_of(with_rule(repositories=["acme/shop"], repo_url=url)).repo_url == url


def test_overrides_and_exclusions_become_part_of_the_patterns():
    rule = rule_of(
        with_rule(
            exclude_repositories=["acme/old-*"],
            overrides=[
                {"match_repositories": ["beta/x"], "exclude_repositories": ["acme/y"]},
                {"match_repositories": ["gamma/z"], "enable": False},
            ],
            repository_overrides={"acme/a": {"enabled": False}, "acme/b": {"enabled": True}},
        )
    )

    assert rule.repositories == ("acme/*", "beta/x")
    assert rule.exclude_repositories == ("acme/old-*", "acme/y", "acme/a")


def test_org_name_stands_before_patterns_without_owner():
    def change(bundle):
        bundle["platforms"][0]["github"]["org_name"] = "acme"
        bundle["rules"][0]["repositories"] = ["shop", "other/*", "**"]

    assert rule_of(read_changed(change)).repositories == ("acme/shop", "other/*", "**")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"a/*.yaml": "prod", "b.json": "test"}, [("a/*.yaml", "prod"), ("b.json", "test")]),
        ({"prod": "a.yaml", "test": "b/x"}, [("a.yaml", "prod"), ("b/x", "test")]),
        ([{"path": "a.yaml", "env": "prod"}], [("a.yaml", "prod")]),
        ([{"path": "prod", "env": "a.yaml"}], [("prod", "a.yaml")]),
        ({".env.test": "test"}, [(".env.test", "test")]),
    ],
)
def test_a_file_map_is_read_in_either_direction(written, meant):
    def change(bundle):
        del bundle["rules"][0]["file_name"]
        bundle["rules"][0]["file_path_map"] = written

    by_env = isinstance(written, dict) and written.keys() == {env for _path, env in meant}
    files = [FileEnvironment(path=path, env=env, by_env=by_env) for path, env in meant]
    assert list(rule_of(read_changed(change)).file_path_map) == files


@pytest.mark.parametrize(
    "written", [{"a.yaml": "b.yaml"}, {"prod": "test"}, {"prod": "a/b", "a/b": "x"}]
)
def test_a_file_map_that_reads_both_ways_or_neither_is_ambiguous(written):
    def change(bundle):
        del bundle["rules"][0]["file_name"]
        bundle["rules"][0]["file_path_map"] = written

    assert codes(read_changed(change)) == [f"{RULE}.file_path_map ambiguous_file_map"]


def test_one_file_and_a_map_of_files_exclude_each_other():
    reading = with_rule(file_path_map={"a.yaml": "prod"})

    assert codes(reading) == [f"{RULE}.file_path_map mutually_exclusive"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (True, Prune(enabled=True)),
        (False, Prune()),
        ({"max_delete_ratio": 0.5}, Prune(enabled=True, max_delete_ratio=0.5)),
        ({"enabled": False, "protection": ["a.*"]}, Prune(protection=("a.*",))),
    ],
)
def test_prune_is_a_bool_or_a_map(written, meant):
    assert rule_of(with_rule(prune=written)).prune == meant


def test_flat_names_of_prune_are_aliases():
    rule = rule_of(with_rule(prune=True, prune_protection=["a.*"], dry_run_prune=True))

    assert rule.prune == Prune(enabled=True, protection=("a.*",), dry_run=True)


@pytest.mark.parametrize("written", ["LIVE_STATE", "live_state", "SYNC_MODE_LIVE_STATE", 3])
def test_words_of_a_choice_come_in_any_case_with_prefix_or_as_number(written):
    assert rule_of(with_rule(sync_mode=written)).sync_mode is SyncMode.LIVE_STATE


def test_mode_zero_is_auto():
    assert rule_of(with_rule(sync_mode=0)).sync_mode is SyncMode.AUTO


def test_values_of_a_rule_arrive_in_the_model():
    rule = rule_of(
        with_rule(
            tenant_id="team-a",
            branch="release/*",
            root_key="",
            env_as_pr=True,
            cleanup={"on_pr_close": "prune"},
            variables_map={"A": "x", "B": {"from": "y"}, "C": {"literal": "z"}},
            allow_overrides=["prune", "BRANCH_MAP"],
            retry_backoff=5,
            environments=["qa"],
            key_format="dot",
        )
    )

    assert (rule.tenant, rule.branches, rule.root_key) == ("team-a", ("release/*",), "")
    assert rule.cleanup.on_pr_close is CleanupAction.PRUNE
    assert rule.variables_map == {
        "A": Variable(text="x"),
        "B": Variable(text="y", form=VariableForm.FROM),
        "C": Variable(text="z", form=VariableForm.LITERAL),
    }
    assert rule.allow_overrides == ("prune", "branch_map")
    assert (rule.retry_backoff_s, rule.environments) == (5.0, ("qa",))
    assert rule.key_format is KeyFormat.DOT


def test_a_rule_of_a_kind_that_cannot_be_written_is_disabled():
    def change(bundle):
        bundle["datasources"].append({"helm": {"tag": "x"}})
        bundle["rules"].append({**bundle["rules"][0], "name": "charts", "datasource": "helm-x"})

    reading = read_changed(change)
    bundle = valid(reading)

    assert codes(reading) == ["bundle.datasources[2].helm unsupported_kind?"]
    assert [rule.name for rule in bundle.rules] == ["shop"]
    assert [(entry.name, entry.segment) for entry in bundle.disabled_rules] == [
        ("charts", "helm-x")
    ]


def test_a_key_that_expires_and_a_watcher_that_repairs_are_a_risk():
    def change(bundle):
        bundle["datasources"][1]["redis"]["ttl"] = "1h"
        bundle["rules"][0].update({"datasource": "redis", "self_heal": True})

    assert codes(read_changed(change)) == [f"{RULE}.self_heal risky_setting?"]


@pytest.mark.parametrize(("template", "fits"), [("{repo}", False), ("x:{{{repo}}}", True)])
def test_keys_of_their_own_on_a_cluster_need_a_hash_tag(template, fits):
    def change(bundle):
        bundle["datasources"][1]["redis"] = {
            "hosts": ["a:1", "b:1"],
            "mode": "CLUSTER",
            "data_structure": "STRING",
        }
        bundle["rules"][0].update({"datasource": "redis", "destination_template": template})

    wrong = [] if fits else [f"{RULE}.destination_template bad_template"]
    assert codes(read_changed(change)) == wrong


def test_secret_managers_of_a_rule_are_named_below_it():
    secrets = {"team": {"vault_addr": "https://v.example", "token_auth": {"token": {"env": "T"}}}}
    reading = with_rule(secrets=secrets)

    assert rule_of(reading).secret_manager == "shop/team"
    assert valid(reading).secret_manager("shop/team").endpoint == "https://v.example"
