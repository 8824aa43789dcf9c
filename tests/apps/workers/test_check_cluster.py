"""`partita check_cluster`: which clusters it checks, what it prints and returns."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.operations.api import ExitCode
from apps.workers import cluster_checks
from worker.domain.cluster_options import ClusterOptions
from worker.domain.runtime import RuntimeOptions
from worker.runtimes.kubernetes.cluster_check import Check

SEVERAL = """\
agents:
  - {agentId: here, name: Here, type: local, default: true}
  - {agentId: one, name: One, type: kubernetes, kubeconfigPath: /etc/one, targetNamespace: steps,
     sharedClaim: files}
  - {agentId: two, name: Two, type: kubernetes, hostUrl: "https://10.0.0.1:6443"}
"""
REACHED = Check(name="api", state="ok", subject="https://10.0.0.1", detail="v1.34.4")
MISSING = Check(name="right", state="missing", subject="delete pods", detail="may not")
GRANTED = Check(name="right", state="ok", subject="get pods")
UNSEEN = Check(name="namespace", state="unknown", subject="steps", detail="may not be read")


class Checker:
    """Stands for the checks of a cluster: remembers what was asked, yields what is set."""

    def __init__(self) -> None:
        self.found: Sequence[Check] = (REACHED, UNSEEN, GRANTED)
        self.clusters: list[ClusterOptions] = []
        self.pulls: tuple[str, ...] = ()

    async def __call__(
        self, options: RuntimeOptions, *, pulls: Sequence[str]
    ) -> AsyncGenerator[Check]:
        self.clusters.append(options.cluster)
        self.pulls = tuple(pulls)
        for each in self.found:
            yield each


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Checker:
    made = Checker()
    monkeypatch.setattr(cluster_checks, "check_cluster", made)
    return made


def run(*words: str) -> int:
    """Return the exit code."""
    with pytest.raises(SystemExit) as ended:
        call_command("check_cluster", *words)
    return int(ended.value.code or 0)


@pytest.fixture
def _backends(settings: Any, tmp_path: Path, transactional_db: None) -> None:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(SEVERAL)


@pytest.mark.usefixtures("_backends")
def test_the_clusters_of_all_backends_are_checked_as_their_runners_reach_them(checker, capsys):
    assert run() == ExitCode.OK

    assert checker.clusters == [
        ClusterOptions(kubeconfig="/etc/one", namespace="steps", claim="files"),
        ClusterOptions(server="https://10.0.0.1:6443", namespace="default"),
    ]
    printed = capsys.readouterr().out
    assert printed.index("backend one") < printed.index("backend two")


@pytest.mark.usefixtures("_backends")
def test_one_backend_and_one_that_does_not_exist(checker, capsys):
    assert run("--backend", "two") == ExitCode.OK
    assert len(checker.clusters) == 1

    assert run("--backend", "here") == ExitCode.NOT_FOUND
    assert "no backend 'here' of type kubernetes; those are one, two" in capsys.readouterr().err


def test_a_cluster_that_options_name_needs_no_store(checker):
    assert run("--kubeconfig", "/k", "--context", "test", "--namespace", "apps") == ExitCode.OK
    assert run("--in-cluster", "--claim", "files", "--pull", "a:1", "--pull", "b:2") == ExitCode.OK

    assert checker.clusters == [
        ClusterOptions(kubeconfig="/k", context="test", namespace="apps"),
        ClusterOptions(claim="files"),
    ]
    assert checker.pulls == ("a:1", "b:2")


def test_the_rights_that_are_there_are_one_line_and_each_that_is_not_has_its_own(checker, capsys):
    checker.found = (REACHED, GRANTED, MISSING, GRANTED)

    assert run("--in-cluster") == ExitCode.ERROR

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines] == [
        ["STATE", "CHECK"],
        ["ok", "api"],
        ["ok", "rights"],
        ["missing", "right"],
    ]
    assert lines[2][2:] == ["2", "of", "3"]


def test_a_cluster_that_was_not_reached_is_unavailable(checker):
    checker.found = (Check(name="api", state="missing", detail="no answer"),)

    assert run("--in-cluster") == ExitCode.UNAVAILABLE


def test_the_document_for_programs_has_every_right(checker, capsys):
    checker.found = (REACHED, GRANTED, MISSING)

    assert run("--in-cluster", "-o", "json") == ExitCode.ERROR

    (cluster,) = json.loads(capsys.readouterr().out)["clusters"]
    assert (cluster["backend"], cluster["reached"], cluster["ready"]) == ("", True, False)
    assert [(each["name"], each["state"]) for each in cluster["checks"]] == [
        ("api", "ok"),
        ("right", "ok"),
        ("right", "missing"),
    ]


def test_two_clusters_at_once_are_refused():
    with pytest.raises(Exception, match="not allowed with"):
        call_command("check_cluster", "--in-cluster", "--backend", "one")


def test_the_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        call_command("check_cluster", "--help")

    text = capsys.readouterr().out
    assert "partita check_cluster --in-cluster" in text
    assert "6 a cluster or the store cannot be reached" in text
