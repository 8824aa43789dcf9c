"""What a suite says about itself, and what is said for it (reference: control-plane 6)."""

from __future__ import annotations

import pytest

from apps.profiles.api import profiles_of
from apps.suites.domain.definition import folders, language
from apps.suites.domain.metadata import metadata_of
from apps.suites.domain.package import Package
from readers.archive import content_digest


def metadata(suite_id="pay-api", **texts):
    files = {name.replace("__", "/"): text.encode() for name, text in texts.items()}
    named = {
        f"{path}.md" if path == "README" else f"{path}.yaml": text for path, text in files.items()
    }
    package = Package(suite_id=suite_id, files=named)
    return metadata_of(package, profiles_of(package.files))


def test_without_any_file_there_are_defaults():
    found = metadata()

    assert (found.title, found.description, found.owner) == ("Pay Api", "", "Workspace")
    assert (found.repository, found.version, found.tags) == (
        "workspace/pay-api",
        "workspace",
        ("workspace",),
    )


def test_the_readme_gives_title_and_description():
    found = metadata(README="\n\n## Payments \n\nTakes money.\n\nMore.")

    assert (found.title, found.description) == ("Payments", "Takes money.")


def test_flat_keys_win_over_wrapped_ones():
    found = metadata(
        metadata="kind: Suite\nmetadata: {id: pay-api, title: Wrapped}\n"
        "spec: {owner: Spec, version: 1.10, tags: [z, a], labels: {team: x}}\ntitle: Flat"
    )

    assert (found.title, found.owner, found.version) == ("Flat", "Spec", "1.10")
    assert (found.tags, found.labels) == (("a", "workspace", "z"), {"team": "x"})


def test_the_owner_comes_from_label_or_repository():
    assert metadata(metadata="labels: {owner: Team}").owner == "Team"
    assert metadata(metadata="repository: registry.example/core-team/shop").owner == "Core Team"


def test_the_repository_may_come_from_a_profile():
    found = metadata(profiles__ci="runtime: {repository: registry.example/core/shop}")

    assert found.repository == "registry.example/core/shop"


def test_a_wrong_id_leaves_the_other_keys_in_the_list():
    found = metadata(metadata="{id: other, title: Shop, tags: [demo], labels: {owner: Ada}}")

    assert (found.title, found.owner) == ("Shop", "Ada")
    assert found.tags == ("demo", "workspace")


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("id: other", "not the suite's id", None),
        ("kind: Suite\nmetadata: {id: other}", "not the suite's id", None),
        ("- a", "must be a mapping", 1),
        ("\ntitle: [a]", "title must be a string", 2),
        ("tags: x", "tags must be a list", 1),
        ("labels: [x]", "labels must be a mapping", 1),
        ("kind: Suite\nspec: x", "spec must be a mapping", 2),
        ("a: [", "did not find", 2),
    ],
)
def test_broken_metadata_is_a_problem_with_its_line(text, says, line):
    found = metadata(metadata=text)

    assert says in found.problem
    assert (found.problem_file, found.problem_line) == ("metadata.yaml", line)


def test_the_time_for_which_failed_environments_stay_is_read():
    assert metadata(metadata="keepOnFailure: 30m").keep_on_failure_ms == 1_800_000
    wrapped = "kind: Suite\nspec: {keepOnFailure: 1h}\nmetadata: {id: shop}"
    assert metadata(metadata=wrapped).keep_on_failure_ms == 3_600_000
    assert "at most 4h" in metadata(metadata="keepOnFailure: 9h").problem


def test_unknown_keys_are_warned_of():
    assert [each.line for each in metadata(metadata="title: x\nfoo: 1").warnings] == [2]


def test_the_digest_is_that_of_the_reference():
    """sha256 over sorted `path NUL size NUL sha256(file) LF`."""
    digest = content_digest({"b": b"2", "a": b"1"})

    assert digest == content_digest({"a": b"1", "b": b"2"})
    assert digest == "sha256:e449d89dcb9bc2126786c76d974a8909cccc66b45cd060375250577044f751cb"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.yml", "yaml"),
        ("x/a.SH", "bash"),
        ("a.star", "starlark"),
        ("a", "text"),
        ("a.rb", "text"),
    ],
)
def test_languages_are_known_by_extension(path, expected):
    assert language(path) == expected


def test_folders_have_roles():
    files = {"tests/a.sh": b"", "tests/b/c.sh": b"", "load/x.star": b"", "my_data/y": b"", "z": b""}

    assert [(each["name"], each["role"]) for each in folders(files)] == [
        ("load", "Performance"),
        ("my_data", "My Data"),
        ("tests", "Verification"),
    ]
    assert folders(files)[2]["files"] == ["tests/a.sh", "tests/b/c.sh"]
