"""`manage.py suite search`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.accounts.api import operator
from apps.accounts.services.administrators import ensure_seed_admin
from apps.catalog.api import add_favorite
from tests.apps.catalog.conftest import PASSWORD, FakeIndex
from tests.support.commands import run_command

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def offers(index: FakeIndex, workspace: Any) -> FakeIndex:
    index.registry("main")
    index.offer("main", "core/payments", ["latest", "2.0"])
    workspace.add("shop", {"suite.star": 'task.run("t", image="busybox:1.36")\n',
                           "metadata.yaml": '{title: "\\e[31mA shop"}'})  # fmt: skip
    return index


def search(*words: str) -> int:
    return run_command("suite", "search", *words)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


@pytest.mark.parametrize("form", [[], ["-o", "text"], ["-o", "table"]])
def test_the_packages_are_a_table(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str], form: list[str]
):
    assert search("--kind", "suite", *form) == 0

    written = capsys.readouterr()
    assert written.out.splitlines()[0].split()[:3] == ["PACKAGE", "VERSION", "KIND"]
    assert [row[:2] for row in rows(written.out)] == [
        ["workspace/shop", "workspace"],
        ["main.example.com/core/payments", "2.0"],
    ]
    assert "\x1b" not in written.out
    assert written.err == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["PAY"], ["main.example.com/core/payments"]),
        (["--provider", "Workspace"], ["workspace/shop"]),
        (["--kind", "stdlib", "--module", "redis"], ["partita/redis"]),
        (["nothing"], []),
    ],
)
def test_programs_get_json(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str], words: list[str], found: list[str]
):
    assert search(*words, "-o", "json") == 0

    document = json.loads(capsys.readouterr().out)
    assert [package["repository"] for package in document["packages"]] == found
    assert (document["total"], document["warnings"]) == (len(found), [])


def test_a_registry_that_fails_is_said_beside_the_others(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str]
):
    offers.fail("main", "connection refused")

    assert search("payments") == 0
    written = capsys.readouterr()
    search("nothing", "-o", "json")

    assert rows(written.out)[0][0] == "main.example.com/core/payments"
    assert "registry main could not be read: connection refused" in written.err
    assert json.loads(capsys.readouterr().out)["warnings"][0]["registryId"] == "main"


def test_registries_that_fail_are_said_in_one_line(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str]
):
    offers.fail("main", "connection refused")
    offers.fail("other", "timeout")

    assert search("payments") == 0

    assert capsys.readouterr().err == (
        "2 registries could not be read, their last good content is shown: "
        "main (connection refused), other (timeout)\n"
    )


def test_what_is_only_described_with_the_words_stands_below(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    entries = [
        _entry("a/hello", "Hello", "like the greeter"),
        _entry("a/old-greeter", "Old greeter", ""),
        _entry("a/greeter", "Greeter", ""),
    ]
    monkeypatch.setattr("apps.catalog.selectors.list_entries", lambda: entries)

    assert search("greeter") == 0
    written = capsys.readouterr()
    search("like the", "-o", "json")

    assert [row[0] for row in rows(written.out)] == ["a/greeter", "a/old-greeter"]
    assert written.err == "only described with 'greeter': a/hello\n"
    assert json.loads(capsys.readouterr().out)["total"] == 1


def _entry(repository: str, title: str, description: str) -> Any:
    package = {
        "id": repository, "kind": "suite", "title": title, "repository": repository,
        "owner": "", "provider": "Zot", "version": "1", "tags": ["1"], "description": description,
        "modules": [], "status": "Listed", "score": 0, "inspectable": False,
    }  # fmt: skip
    return {"package": package, "launchable": False, "merits": {}, "seenAt": ""}


def test_favorites_are_those_of_the_account_that_commands_act_as(
    offers: FakeIndex, capsys: pytest.CaptureFixture[str]
):
    assert search("--starred") == 4  # there is no such account yet
    assert "no administrator" in capsys.readouterr().err
    ensure_seed_admin("root@example.org", PASSWORD)
    assert search("--starred") == 0
    assert "no package matches" in capsys.readouterr().err
    add_favorite(operator(), "workspace-shop")

    assert search("--starred") == 0

    assert [row[0] for row in rows(capsys.readouterr().out)] == ["workspace/shop"]


def test_a_kind_that_does_not_exist_is_a_fault_of_usage(capsys: pytest.CaptureFixture[str]):
    assert search("--kind", "module") == 2
