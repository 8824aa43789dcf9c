"""`settings` and `worker` against the real API, called in this process."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.accounts.api import operator
from apps.accounts.domain.ci_sessions import rule_digest
from apps.accounts.domain.tokens import hash_token
from apps.accounts.models import CiSession, User
from apps.accounts.services.ci_sessions import trust_rules
from apps.accounts.services.token_pairs import issue_tokens
from apps.agents import api as agents
from apps.agents.models import Agent
from apps.platform_settings.api import get_registry, replace_settings, settings_document
from kernel import clock
from kernel.exit_codes import ExitCode
from kernel.ids import new_uuid
from partita_client.installation import ServerInstallation
from tests.apps.platform_settings.documents import SECRETS, document, viewer_client
from tests.support.client_views import TypedWords, ask_views
from tests.support.openapi_answers import check_against_openapi

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = """\
mode: remote
agents:
  - {agentId: edge, name: Edge, type: remote-agent}
"""


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch, settings: Any, home: Path) -> None:
    settings.PLATFORM_SETTINGS_FILE = home / "configuration.yaml"
    ask_views(monkeypatch)
    replace_settings(operator(), document())


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> TypedWords:
    return TypedWords(capsys)


@pytest.fixture
def file(home: Path) -> Path:
    made = home / "new.yaml"
    made.write_text(OTHER)
    return made


@pytest.fixture
def _as_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is that of somebody who administers nothing."""
    viewer_client()
    somebody = User.objects.get(email="ada@example.org")
    monkeypatch.setenv("PARTITA_TOKEN", issue_tokens(somebody).token)


@pytest.mark.parametrize("form", ["text", "wide", "json", "yaml"])
def test_show_masks_every_secret(typed: TypedWords, form: str):
    """Invariant 19."""
    out = typed.run("settings", "show", "-o", form)

    assert not [secret for secret in SECRETS if secret in out]
    if form in ("json", "yaml"):
        shown = json.loads(out) if form == "json" else yaml.safe_load(out)
        assert shown == settings_document(operator())
    else:
        assert out.startswith("mode hybrid, in sync with the file\n")
        assert "edge     Edge   remote-agent" in out
        assert "zot       http://localhost:5000  Pending  –" in out


def test_what_show_prints_can_be_applied_again(typed: TypedWords, home: Path):
    for form in ("yaml", "json"):
        again = home / f"again.{form}"
        again.write_text(typed.run("settings", "show", "-o", form))

        assert typed.run("settings", "diff", str(again)) == "nothing differs\n"
        assert typed.run("settings", "apply", str(again)) == "nothing differs\n"
    assert get_registry("zot").secret == SECRETS[0]


def test_a_dry_run_shows_the_masked_difference_and_changes_nothing(typed: TypedWords, file: Path):
    before = settings_document(operator())

    found = typed.json("settings", "apply", str(file), "--dry-run")

    check_against_openapi("platform_settings_preview", found["changes"], member="changes")
    assert found["dryRun"] is True
    assert {"mode", "registries[zot].secret"} <= {each["key"] for each in found["changes"]}
    assert not [secret for secret in SECRETS if secret in json.dumps(found)]
    assert settings_document(operator()) == before
    assert typed.json("settings", "diff", str(file), code=ExitCode.ERROR) == found


def test_apply_says_what_it_did(typed: TypedWords, file: Path):
    typed.run("settings", "apply", str(file), "--dry-run")
    assert typed.stderr.endswith("dry run: nothing was changed\n")

    typed.run("settings", "apply", str(file))
    assert typed.stderr.endswith("applied\n")


def test_apply_replaces_the_settings(typed: TypedWords, file: Path, monkeypatch: Any):
    found = typed.json("settings", "apply", str(file))

    assert (found["dryRun"], settings_document(operator())["mode"]) == (False, "remote")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OTHER.encode())))
    assert typed.run("settings", "diff", "-") == "nothing differs\n"


def test_changes_are_a_table_for_people_and_lines_for_programs(typed: TypedWords, file: Path):
    heads, first, *_ = typed.run("settings", "diff", str(file), code=1).splitlines()
    assert heads.split() == ["KEY", "OLD", "NEW"]
    assert first.split() == ["mode", "hybrid", "remote"]

    lines = typed.run("settings", "diff", str(file), "-o", "ndjson", code=1).splitlines()
    assert json.loads(lines[0]) == {"key": "mode", "old": "hybrid", "new": "remote"}


def test_an_invalid_file_is_refused_with_its_place_and_key(typed: TypedWords, file: Path):
    file.write_text(OTHER.replace("mode: remote", "mode: cloud").replace("remote-agent", "remot"))

    for verb in ("diff", "apply"):
        assert typed.run("settings", verb, str(file), code=ExitCode.ERROR) == ""
        assert f"error validation_failed: {file}:3:39: " in typed.stderr
        assert f"\n  {file}:1:7: mode must be local, remote or hybrid\n" in typed.stderr
    assert settings_document(operator())["mode"] == "hybrid"


def test_a_mask_of_nothing_is_refused_with_its_place(typed: TypedWords, file: Path):
    replace_settings(operator(), document(notifications={}))
    file.write_text(f'{OTHER}notifications:\n  smtp: {{password: "********"}}\n')

    typed.run("settings", "apply", str(file), code=ExitCode.ERROR)

    assert f"error validation_failed: {file}:5:20: " in typed.stderr


def test_a_file_of_stdin_is_called_so(typed: TypedWords, monkeypatch: Any):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"mode: cloud\n")))

    typed.run("settings", "apply", "-", code=ExitCode.ERROR)

    assert "stdin:1:7: " in typed.stderr


def test_a_file_that_cannot_be_sent_is_a_matter_of_usage(typed: TypedWords, home: Path):
    large = home / "large.yaml"
    large.write_bytes(b"#" * (2**20 + 1))

    for name, why in (("none.yaml", "No such file"), (".", "Is a directory"), (large, "larger")):
        typed.run("settings", "apply", str(name), code=ExitCode.USAGE)
        assert why in typed.stderr


def test_a_conflict_ends_with_5(typed: TypedWords, file: Path):
    typed.run("settings", "apply", str(file), "--if-match", '"old-tag"', code=ExitCode.CONFLICT)

    assert "next: somebody changed it meanwhile" in typed.stderr
    assert settings_document(operator())["mode"] == "hybrid"


def test_what_others_change_before_the_write_is_a_conflict(
    typed: TypedWords, file: Path, monkeypatch: Any
):
    preview = ServerInstallation.preview_settings

    def change_first(self: Any, content: bytes) -> list[Any]:
        found = preview(self, content)
        replace_settings(operator(), document(description="of somebody else"))
        return found

    monkeypatch.setattr(ServerInstallation, "preview_settings", change_first)

    typed.run("settings", "apply", str(file), code=ExitCode.CONFLICT)

    assert settings_document(operator())["description"] == "of somebody else"


def test_the_tag_of_wide_is_taken(typed: TypedWords, file: Path):
    line = typed.run("settings", "show", "-o", "wide").splitlines()[1]

    typed.run("settings", "apply", str(file), "--if-match", line.partition(", tag ")[2])

    assert settings_document(operator())["mode"] == "remote"


def test_registries_that_cannot_be_reached_are_reported(typed: TypedWords):
    changed = document()
    changed["registries"][0]["registryUrl"] = "http://127.0.0.1:9"
    replace_settings(operator(), changed)

    for action in ("test", "sync"):
        code = ExitCode.UNAVAILABLE
        found = typed.json("settings", "registries", action, code=code)
        (one,) = found["registries"]
        assert one["registryId"] == "zot"
        assert SECRETS[0] not in json.dumps(found)
        if action == "test":
            check_against_openapi("platform_settings_test_registry", one)
        else:
            del one["registryId"]
            check_against_openapi("platform_settings_sync_registry", one, member="sync")
        heads, row, *_ = typed.run("settings", "registries", action, "zot", code=6).splitlines()
        assert heads.split()[0] == "REGISTRY"
        assert row.split()[0] == "zot"
    typed.run("settings", "registries", "test", "other", code=ExitCode.NOT_FOUND)
    assert "next: `partita settings show` shows the registries" in typed.stderr


def test_without_a_registry_the_way_to_one_is_said(typed: TypedWords):
    replace_settings(operator(), document(registries=[]))

    assert typed.run("settings", "registries", "test") == ""
    assert "no registry is configured; add one on the page" in typed.stderr
    assert "no registry: add one on the page" in typed.run("settings", "show")
    assert typed.json("settings", "registries", "sync") == {"registries": []}


@pytest.mark.usefixtures("_as_viewer")
@pytest.mark.parametrize(
    "words",
    [("apply", "new.yaml"), ("diff", "new.yaml"), ("registries", "test"), ("registries", "sync")],
    ids=" ".join,
)
def test_others_than_administrators_are_refused_in_words(
    typed: TypedWords, file: Path, words: tuple[str, ...]
):
    """Invariant 17."""
    typed.run("settings", *words, code=ExitCode.FORBIDDEN)

    assert "error admin_required: " in typed.stderr
    assert "next: an administrator of the installation can do this" in typed.stderr
    assert settings_document(operator())["mode"] == "hybrid"


@pytest.mark.usefixtures("_as_viewer")
def test_others_than_administrators_see_settings_and_workers(typed: TypedWords):
    register("edge")

    assert "edge" in typed.run("settings", "show")
    assert "edge" in typed.run("worker", "status")
    typed.run("worker", "drain", "edge", code=ExitCode.FORBIDDEN)
    typed.run("worker", "remove", "edge", "-y", code=ExitCode.FORBIDDEN)


@pytest.fixture
def _as_ci_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is that of a session of a CI job."""
    rule = {
        "name": "shop", "issuer": "https://ci.example", "audience": "https://partita.example",
        "repositories": ["acme/shop"], "workspace": str(operator().workspace_id), "suites": ["*"],
    }  # fmt: skip
    replace_settings(operator(), document(ciTrust=[rule]))
    secret = "pci_" + "x" * 43
    over = clock.now() + timedelta(hours=1)
    CiSession.objects.create(
        workspace_id=operator().workspace_id,
        owner_id=new_uuid(),
        token_hash=hash_token(secret),
        job_token_hash=hash_token("job"),
        rule_name="shop",
        rule_digest=rule_digest(trust_rules()[0]),
        job="github: acme/shop",
        role="runner",
        suites=["*"],
        expires_at=over,
        kept_until=over,
    )
    monkeypatch.setenv("PARTITA_TOKEN", secret)


@pytest.mark.usefixtures("_as_ci_job")
@pytest.mark.parametrize(
    "words",
    [
        ("settings", "show"),
        ("settings", "apply", "new.yaml"),
        ("worker", "list"),
        ("worker", "drain", "edge"),
        ("mock", "state", "shop"),
        ("mock", "reset", "shop"),
    ],
    ids=" ".join,
)
def test_a_ci_job_is_refused_in_words(typed: TypedWords, file: Path, words: tuple[str, ...]):
    typed.run(*words, code=ExitCode.FORBIDDEN)

    assert "error ci_session_limited: " in typed.stderr
    assert "next: the session of a CI job launches, follows, reruns" in typed.stderr


def register(name: str, *, silent: bool = False, **facts: Any) -> None:
    agents.register(
        agents.Registration(agent_id=name, incarnation="1", kind="worker", version="1", **facts)
    )
    agents.heartbeat(name, incarnation="1", running_jobs=2, failing_loops=["claims"])
    if silent:
        Agent.objects.filter(agent_id=name).update(
            last_heartbeat_at=clock.now() - 250 * agents.OFFLINE_AFTER
        )


def test_workers_are_a_table_with_ages(typed: TypedWords):
    register("edge", silent=True)
    register("near", labels={"zone": "eu", "gpu": ""})

    heads, edge, near = typed.run("worker", "list").splitlines()
    assert heads.split()[:5] == ["ID", "KIND", "STATE", "RUNTIME", "JOBS"]
    assert edge.split() == ["edge", "worker", "offline", *"–––", "edge", "2h", "ago"]
    assert near.split()[:6] == ["near", "worker", "online", "answers", "2", "claims"]
    assert "gpu, zone=eu" in typed.run("worker", "list", "-o", "wide")
    assert typed.run("worker", "list", "--state", "offline", "-o", "name") == "edge\n"


def test_a_document_of_workers_has_times(typed: TypedWords):
    register("near")

    found = typed.json("worker", "status")

    check_against_openapi("agents_list", found["agents"], member="agents")
    check_against_openapi("executions_overview_retrieve", found["summary"], member="summary")
    assert found["agents"][0]["lastHeartbeatAt"].endswith("Z")


def test_status_says_how_many_are_online_and_what_waits(typed: TypedWords):
    register("edge", silent=True)
    register("near")
    register("other")
    typed.run("worker", "drain", "near")

    said = typed.run("worker", "status")

    assert said.startswith("2 of 3 runners and workers online, 1 of them draining\nruns: 0 queued")


def test_a_worker_is_drained_and_resumed(typed: TypedWords):
    register("edge")

    said = typed.run("worker", "drain", "edge")
    assert said == (
        "edge takes no new runs and finishes its own; next: partita worker resume edge\n"
    )
    assert agents.is_draining("edge")
    assert "draining" in typed.run("worker", "show", "edge")
    assert typed.run("worker", "resume", "edge") == "edge takes new runs\n"
    assert not agents.is_draining("edge")


def test_a_worker_is_removed_by_who_says_so(typed: TypedWords, monkeypatch: Any):
    register("edge")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    typed.run("worker", "remove", "edge", code=ExitCode.USAGE)
    assert "next: add --yes" in typed.stderr

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    typed.run("worker", "remove", "edge", code=ExitCode.ERROR)
    assert "and 2 running jobs are lost" in typed.stderr
    assert agents.list_agents()

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert typed.run("worker", "remove", "edge") == "edge is removed\n"
    assert agents.list_agents() == ()
    register("edge")
    assert typed.json("worker", "remove", "edge", "-y") == {"agentId": "edge", "status": "removed"}


class Terminal(io.StringIO):
    """A stdin at which a person sits."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verb", ["show", "drain", "resume", "remove"])
def test_an_unknown_worker_ends_with_3(typed: TypedWords, verb: str):
    register("edge")

    typed.run("worker", verb, "egde", *(["-y"] if verb == "remove" else []), code=3)

    assert "agent_not_found" in typed.stderr
    assert "partita worker list" in typed.stderr


def test_a_runner_at_work_is_not_removed(typed: TypedWords):
    agents.register(agents.Registration(agent_id="runner:vm", incarnation="1", kind="runner"))

    typed.run("worker", "remove", "runner:vm", "-y", code=ExitCode.CONFLICT)

    assert "next: keep new runs from it: partita worker drain ID" in typed.stderr
