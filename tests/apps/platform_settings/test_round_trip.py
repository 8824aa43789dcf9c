"""A settings file keeps its comments, its order and its style when values change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apps.platform_settings.domain.document import read_file
from apps.platform_settings.domain.fields import SettingsContext
from apps.platform_settings.domain.round_trip import merged_text
from apps.platform_settings.domain.wire import Version, Wire, wire_of

TEXT = """\
# Where our suites run.
agents:
  # the default
  - agentId: local
    name: "Local Docker"   # as people call it
    type: docker
    default: true
  # in the basement
  - {agentId: edge, name: Edge, type: remote, routingTags: [zone=eu]}
mode: hybrid

registries:
  - {registryId: zot, name: Zot, provider: Zot, registryUrl: "http://z", secret: s3cr3t}  # ours
secrets:
  provider: none
  globalOverrides:
    - {key: REGION, value: eu}
"""


def wire(text: str) -> Wire:
    return wire_of(read_file(text, "configuration.yaml", SettingsContext())[1].root)


def written(text: str, new: Wire) -> str:
    before = wire(text)
    made = merged_text(text, Version(before, before), Version(new, new))
    assert wire(made) == new
    return made


def test_nothing_changes_without_a_difference() -> None:
    assert written(TEXT, wire(TEXT)) == TEXT


def test_one_value_changes_one_line() -> None:
    new = wire(TEXT)
    new["agents"][0]["name"] = "Docker here"
    new["registries"][0]["secret"] = "another"

    old_lines, lines = TEXT.splitlines(), written(TEXT, new).splitlines()

    assert len(lines) == len(old_lines)
    changed = [line for line, old in zip(lines, old_lines, strict=True) if line != old]
    assert len(changed) == 2
    assert changed[0].startswith('    name: "Docker here"')
    assert changed[0].endswith("# as people call it")
    assert "secret: another" in changed[1]
    assert changed[1].endswith("# ours")


def test_entries_are_added_removed_and_moved() -> None:
    new = wire(TEXT)
    new["agents"].reverse()
    added = {**copy.deepcopy(new["registries"][0]), "registryId": "hub", "secret": ""}
    new["registries"] = [added, *new["registries"]]
    new["secrets"]["globalOverrides"] = []

    made = written(TEXT, new)

    for comment in (
        "# Where our suites run.",
        "# as people call it",
        "# in the basement",
        "# ours",
    ):
        assert comment in made
    assert made.index("agents:") < made.index("mode:") < made.index("registries:")


def test_removing_an_entry_keeps_the_comments_of_the_others() -> None:
    new = wire(TEXT)
    del new["agents"][0]

    made = written(TEXT, new)

    assert "# Where our suites run." in made
    assert "# in the basement" in made


def test_a_key_with_its_default_is_not_added() -> None:
    new = wire(TEXT)
    new["description"] = "ours"

    made = written(TEXT, new)

    assert made.replace("description: ours\n", "") == TEXT


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "mode: hybrid\n"])
def test_a_file_without_entries_gets_them(text: str) -> None:
    made = written(text, wire(TEXT))

    assert made.startswith(text.strip().removeprefix("---"))


def test_values_that_look_like_others_stay_texts() -> None:
    new = wire(TEXT)
    new["agents"][0]["name"] = "1.10"
    new["description"] = "true"
    new["agents"][0]["tlsCert"] = "-----BEGIN-----\nabc\n-----END-----"

    made = written(TEXT, new)

    assert "|-" in made


def test_a_new_file_says_it_all() -> None:
    for document in (wire(TEXT), wire("")):
        assert wire(written("", document)) == document


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", "remote"),
        ("notifications", {"smtp": {"host": "m", "port": 25, "username": "", "password": "",
                                     "from": ""}}),
    ],
)  # fmt: skip
def test_top_level_sections(key: str, value: Any) -> None:
    new = wire(TEXT)
    new[key] = value

    written(TEXT, new)
