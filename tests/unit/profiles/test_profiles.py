"""Profile files: types, places of errors, chains (reference: control-plane 6.1, 10)."""

from __future__ import annotations

import pytest

from apps.profiles.domain.profile_file import profiles_of, read_profile
from apps.profiles.domain.profiles import ProfileInvalid, default_profile, find_profile, merge_chain


def profile(text, path="profiles/ci.yaml"):
    return read_profile(text, path=path, taken=set())


def profiles(**texts):
    files = {f"profiles/{name}.yaml": text.encode() for name, text in texts.items()}
    return profiles_of(files)


def named(found, wanted):
    profile = find_profile(found, wanted)
    assert profile
    return profile


def test_every_key_of_the_reference_is_read():
    read = profile(
        """
name: CI
description: Fast checks
default: true
extendsId: base
runtime: {suite: shop, repository: registry.example/core/shop, profileFile: ci.yaml}
modules: [postgres, kafka]
observability: {logs: true, traces: false}
secretRefs: [{key: PSP_TOKEN, provider: vault, ref: psp#token}]
env: {LOG_LEVEL: info}
services: {api: {env: {PORT: "8080"}}}
keepOnFailure: 1h30m
"""
    )

    assert (read.label, read.description, read.default, read.extends_id) == (
        "CI",
        "Fast checks",
        True,
        "base",
    )
    assert read.repository == "registry.example/core/shop"
    assert read.modules == ("postgres", "kafka")
    assert read.observability == {"logs": True, "traces": False}
    assert read.keep_on_failure_ms == 5_400_000
    assert read.secret_refs[0].as_dict() == {
        "key": "PSP_TOKEN",
        "provider": "vault",
        "ref": "psp#token",
    }
    assert (read.env, read.services) == ({"LOG_LEVEL": "info"}, {"api": {"PORT": "8080"}})
    assert (read.problem, read.warnings) == (None, ())


def test_env_keeps_the_text_of_the_file():
    read = profile("env: {A: yes, B: 1.10, C: 0x1F, D: '1', E: null, F: 2026-01-02, G: ''}")

    assert read.env == {
        "A": "yes",
        "B": "1.10",
        "C": "0x1F",
        "D": "1",
        "E": None,
        "F": "2026-01-02",
        "G": "",
    }


def test_an_empty_file_is_a_profile_named_by_its_file():
    read = profile("", path="profiles/load-test.yml")

    assert (read.profile_id, read.label, read.problem) == ("load-test", "Load Test", None)


def test_other_keys_are_kept_out_and_warned_of_with_their_line():
    read = profile(
        "name: x\nfoo: 1\nruntime:\n  image: y\n"
        "secretRefs:\n- {key: A, provider: p, ref: r, x: 1}\n"
    )

    assert [(each.detail.split('"')[1], each.line) for each in read.warnings] == [
        ("foo", 2),
        ("runtime.image", 4),
        ("secretRefs.x", 6),
    ]


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("- a", "must be a mapping", 1),
        ("name: x\nname: y", "occurs twice", 2),
        ("\nname: [a]", "name must be a string", 2),
        ("default: yes", "default must be true or false", 1),
        ("default: [true]", "default must be true or false", 1),
        ("modules: postgres", "modules must be a list", 1),
        ("modules: [[a]]", "an entry must be a string", 1),
        ("observability: {logs: 1}", "logs must be true, false or a word", 1),
        ("observability: true", "observability must be a mapping", 1),
        ("keepOnFailure: soon", "expected a duration such as 500ms, 30s or 1m30s, or no", 1),
        ("keepOnFailure: 5h", "an environment is kept for at most 4h", 1),
        ("keepOnFailure: [30m]", "keepOnFailure must be a time such as 30m, or no", 1),
        ("runtime: x", "runtime must be a mapping", 1),
        ("runtime: {suite: [x]}", "suite must be a string", 1),
        ("env: [A]", "env must be a mapping", 1),
        ("env:\n  A: {b: c}", "A must be a single value", 2),
        ("env:\n  a-b: c", "not a valid name for an environment variable", 2),
        ("services: [api]", "services must be a mapping", 1),
        ("services:\n  api: x", "api must be a mapping", 2),
        ("services:\n  api:\n    env: {1A: x}", "not a valid name for an environment variable", 3),
        ("secretRefs: {key: A}", "secretRefs must be a list", 1),
        ("secretRefs: [a]", "a secretRef must be a mapping", 1),
        ("secretRefs: [{key: A, provider: p}]", "a secretRef requires ref", 1),
        ("secretRefs: [{key: a-b, provider: p, ref: r}]", "not a valid name for an environment", 1),
        ("name: [", "did not find expected", 2),
        ("a: " + "[" * 70, "nested", 1),
    ],
)
def test_a_broken_file_stays_a_profile_with_its_error_and_line(text, says, line):
    read = profile(text)

    assert read.profile_id == "ci"
    assert says in read.problem.detail
    assert (read.problem.file, read.problem.line) == ("profiles/ci.yaml", line)


def test_a_chain_is_merged_root_first_and_null_unsets():
    found = profiles(
        base="env: {A: 1, B: 1, C: 1}\nservices: {api: {env: {P: 1, Q: 1}}, db: {env: {X: 1}}}\n"
        "modules: [a]\nobservability: {traces: false}\n"
        "secretRefs: [{key: S, provider: one, ref: r}, {key: T, provider: one, ref: r}]",
        mid="extendsId: base\nenv: {B: 2, C: null}\n"
        "services: {api: {env: {Q: ~}}, db: {env: {X: ~}}}",
        top="extendsId: mid\nenv: {C: 3}\nmodules: [b, a]\nobservability: {logs: false}\n"
        "secretRefs: [{key: S, provider: two, ref: r}]",
    )

    merged = merge_chain(found, named(found, "top"))

    assert merged.env == {"A": "1", "B": "2", "C": "3"}
    assert merged.services == {"api": {"P": "1"}}
    assert merged.modules == ("a", "b")
    assert merged.observability == {"logs": False, "traces": False, "metrics": True}
    assert [(ref.key, ref.provider) for ref in merged.secret_refs] == [("S", "two"), ("T", "one")]


def test_a_chain_that_comes_back_to_itself_is_refused():
    found = profiles(a="extendsId: b", b="extendsId: c", c="extendsId: a")

    with pytest.raises(ProfileInvalid, match="a -> b -> c -> a"):
        merge_chain(found, named(found, "a"))


@pytest.mark.parametrize("text", ["extendsId: nowhere", "extendsId: a"])
def test_a_parent_that_is_not_there_or_itself_is_the_files_problem(text):
    found = profiles(a=text)

    assert found[0].problem.pointer == "/extendsId"


def test_a_broken_parent_makes_the_chain_invalid_naming_the_parent():
    found = profiles(a="extendsId: b", b="env: [x]")

    with pytest.raises(ProfileInvalid, match=r"profiles/b\.yaml:1: env must be a mapping"):
        merge_chain(found, named(found, "a"))


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        ({}, None),
        ({"b": "", "a": ""}, "a.yaml"),
        ({"a": "", "b": "default: true"}, "b.yaml"),
        ({"a": "", "c": "default: true", "b": "default: true"}, "b.yaml"),
        ({"base": "", "z": ""}, "z.yaml"),
        ({"base": ""}, None),
        ({"base": "default: true"}, "base.yaml"),
    ],
)
def test_the_default_is_the_first_flagged_else_the_first_launchable(texts, chosen):
    found = default_profile(profiles(**texts))

    assert (found and found.file_name) == chosen


def test_files_with_one_slug_get_different_ids():
    files = {"profiles/a-b.yaml": b"", "profiles/a_b.yaml": b"", "profiles/a.b.yml": b""}

    found = profiles_of(files)

    assert sorted(each.profile_id for each in found) == ["a-b", "a-b-2", "a-b-3"]


def test_only_yaml_files_right_below_profiles_are_profiles():
    files = {"profiles/x/a.yaml": b"", "profiles/a.json": b"", "a.yaml": b"", "profiles/b.yml": b""}

    assert [each.file_name for each in profiles_of(files)] == ["b.yml"]


@pytest.mark.parametrize(("word", "expected"), [("no", 0), ("false", 0), ("0", 0), ("90", 90_000)])
def test_an_environment_is_kept_for_seconds_or_not_at_all(word, expected):
    assert profile(f"keepOnFailure: {word}").keep_on_failure_ms == expected


def test_a_profile_keeps_as_its_base_says_unless_it_says_no():
    found = profiles(
        base="keepOnFailure: 30m", ci="extendsId: base", quick="extendsId: base\nkeepOnFailure: no"
    )
    kept = {
        name: merge_chain(found, named(found, name)).keep_on_failure_ms for name in ("ci", "quick")
    }
    assert kept == {"ci": 1_800_000, "quick": 0}
    assert merge_chain(profiles(ci=""), profiles(ci="")[0]).keep_on_failure_ms is None
