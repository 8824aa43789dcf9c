"""The command against the real API, called in this process: the documents are those of the wire."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.environments.api import RuntimeLook, record_look
from apps.executions.services.admission import dispatch
from kernel import clock
from partita_client.command.program import NOUNS, find_noun
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.support.client_views import EMAIL, TypedWords, ask_views
from tests.support.openapi_answers import check_against_openapi
from tests.support.people import principal_of
from tests.support.resources import resource
from tests.support.up import HELLO

pytestmark = pytest.mark.django_db(transaction=True)
Type = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    """Requests go to the views of this process, as the first administrator."""
    settings.SUITES_DIR = tmp_path / "suites"
    shutil.copytree(HELLO, settings.SUITES_DIR / "hello")
    ask_views(monkeypatch)


@pytest.fixture
def type_in(capsys: pytest.CaptureFixture[str]) -> Type:
    return TypedWords(capsys)


@pytest.fixture
def failed_run() -> Run:
    """A run of two steps whose test failed, with three lines of output."""
    principal = principal_of(User.objects.get(email=EMAIL))
    worker = Worker()
    made = booted_run(node("seed"), node("check", kind="test", after=["seed"]), principal=principal)
    worker.claim()
    worker.end("seed")
    worker.claim()
    worker.log("check", "one", "two", "expected 2, got 1")
    worker.fail("check")
    dispatch()
    assert made.status == "Failed"
    return made


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("run", "list"), "executions"),
        (("suite", "list"), "suites"),
        (("suite", "show", "hello"), "topology"),
        (("profile", "list"), "suites"),
        (("profile", "list", "hello"), "profiles"),
        (("catalog", "list"), "packages"),
        (("catalog", "search", "hello"), "packages"),
        (("whoami",), "user"),
        (("version",), "server"),
        (("settings", "show"), "agents"),
        (("worker", "list"), "agents"),
        (("worker", "status"), "summary"),
    ],
)
def test_every_read_is_a_document_and_a_table(type_in: Type, words: tuple[str, ...], key: str):
    code, out, err = type_in(*words, "-o", "json")
    assert code == 0, err
    assert key in json.loads(out)

    code, out, err = type_in(*words)
    assert code == 0, err
    assert out


@pytest.mark.usefixtures("_left_container")
@pytest.mark.parametrize("form", ["text", "wide", "name", "json", "ndjson"])
@pytest.mark.parametrize(
    "words",
    [("suite", "list"), ("profile", "list"), ("profile", "list", "hello"), ("environment", "list")],
    ids=" ".join,
)
def test_a_list_is_the_same_with_a_server_and_beside_the_store(
    type_in: Type, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], form: str
):
    code, out, err = type_in(*words, "-o", form)

    with pytest.raises(SystemExit) as ended:
        call_command(*words, "-o", form)

    assert (code, ended.value.code) == (0, 0), err
    assert _without_moments(capsys.readouterr().out) == _without_moments(out)


def _without_moments(text: str) -> str:
    """Return a list without what is of the moment: times, and the tag that the client adds."""
    text = re.sub(r'\n? *"(updatedAt|etag)": [^\n]*', "", text)
    return re.sub(r",(?=\s*[}\]])|\b\d+s\b", "", text)


def test_a_suite_is_shown_the_same_with_a_server_and_beside_the_store(
    type_in: Type, capsys: pytest.CaptureFixture[str]
):
    _, out, _ = type_in("suite", "show", "hello")

    with pytest.raises(SystemExit):
        call_command("suite", "show", "hello")

    assert "LEVEL  STEP" in out
    assert capsys.readouterr().out == out


# made by the client, or in tests with a real server: streams, kept environments; the sync has a
# server of its own (tests/sync/orchestrator/test_sync_client.py)
OF_ITS_OWN = {
    ("context", "list"), ("context", "show"), ("doctor",), ("version",),
    ("run", "again"), ("run", "keep"), ("run", "logs"), ("run", "download"), ("run", "watch"),
    *(("sync", verb) for verb in ("status", "history", "show", "watch", "drift")),
}  # fmt: skip
# verb → the operation whose answer its document is, the part of that, the client's own keys
DOCUMENTS: dict[tuple[str, ...], tuple[str, str, set[str]]] = {
    ("run", "show", "RUN"): ("executions_detail", "", set()),
    ("run", "why", "RUN"): ("executions_detail", "verdict", set()),
    ("run", "wait", "RUN"): ("executions_detail", "", set()),
    ("run", "timeline", "RUN"): ("executions_timeline", "", set()),
    ("run", "rerun", "RUN", "--failed", "--dry-run"): ("executions_rerun", "", set()),
    ("suite", "show", "hello"): ("suites_detail", "", set()),
    ("profile", "list", "hello"): ("profiles_of_suite", "", {"etag"}),
    ("profile", "show", "hello", "default.yaml"): ("profiles_of_suite", "profiles.0", {"etag"}),
    ("environment", "list"): ("sandboxes_list", "", set()),
    ("environment", "show", "run-000000000001"): ("sandboxes_list", "sandboxes.0", set()),
    ("whoami",): ("auth_me", "", {"server", "context"}),
    ("settings", "show"): ("platform_settings_get", "", set()),
    ("worker", "show", "runner-1"): ("agents_list", "agents.0", set()),
    ("worker", "drain", "runner-1"): ("agents_drain", "", set()),
    ("worker", "resume", "runner-1"): ("agents_resume", "", set()),
}
# verb → the operation whose lists its one list is, joined over all pages
LISTS: dict[tuple[str, ...], tuple[str, str]] = {
    ("run", "list"): ("executions_list", "executions"),
    ("run", "artifacts", "RUN"): ("executions_detail", "artifacts"),
    ("suite", "list"): ("suites_list", "suites"),
    ("profile", "list"): ("profiles_suites_list", "suites"),
    ("catalog", "list"): ("catalog_packages_list", "packages"),
    ("catalog", "search", "partita"): ("catalog_packages_list", "packages"),
    ("worker", "list"): ("agents_list", "agents"),
}


@pytest.fixture
def _left_container() -> None:
    """A runner saw a container and a volume that a run left."""
    seen = (resource("container", "store"), resource("volume", "files"))
    record_look(
        RuntimeLook(
            agent_id="runner-1", host_id="h", looked_at=clock.now(), available=True, resources=seen
        )
    )


@pytest.mark.usefixtures("_left_container")
@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
def test_a_document_is_what_the_api_is_described_to_answer(
    type_in: Type, failed_run: Run, words: tuple[str, ...]
):
    operation, member, own = DOCUMENTS[words]

    _, out, err = type_in(
        *(failed_run.id if word == "RUN" else word for word in words), "-o", "json"
    )

    assert out, err
    document = json.loads(out)
    assert document.keys() >= own
    answer = {key: value for key, value in document.items() if key not in own}
    check_against_openapi(operation, answer, member=member)


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_is_what_the_api_is_described_to_answer(
    type_in: Type, failed_run: Run, words: tuple[str, ...]
):
    operation, member = LISTS[words]

    code, out, err = type_in(*(failed_run.id if w == "RUN" else w for w in words), "-o", "json")

    assert code == 0, err
    document = json.loads(out)
    assert document.keys() == {member}
    check_against_openapi(operation, document[member], member=member)


def test_what_changed_since_green_is_beside_the_run(type_in: Type, failed_run: Run):
    _, out, _ = type_in("run", "show", failed_run.id, "--since-green", "-o", "json")

    check_against_openapi("executions_since_green", json.loads(out)["sinceGreen"])


def test_a_run_that_was_started_or_canceled_is_as_described(type_in: Type, failed_run: Run):
    _, out, err = type_in("run", "rerun", failed_run.id, "--failed", "-y", "-o", "json")
    assert out, err
    check_against_openapi("executions_rerun", json.loads(out), status=201)

    _, out, err = type_in("run", "cancel", json.loads(out)["id"], "-o", "json")
    assert out, err
    check_against_openapi("executions_cancel", json.loads(out), status=202)

    _, out, err = type_in("run", "launch", "hello", "-o", "json")
    assert out, err
    check_against_openapi("executions_launch", json.loads(out), status=201)


def test_every_verb_with_a_document_is_checked_or_has_one_of_its_own():
    """A new verb is checked, too: what a program reads is described."""
    checked = {
        tuple(word for word in words[:2] if word.islower()) for words in (*DOCUMENTS, *LISTS)
    }
    checked |= {("run", "rerun"), ("run", "cancel"), ("run", "launch")}
    checked |= {("mock", verb) for verb in ("state", "journal", "reset", "explain", "verify")}
    checked |= {("settings", verb) for verb in ("diff", "apply", "registries")}
    checked |= {("worker", verb) for verb in ("status", "remove")}  # in files of their own
    known = {
        (noun.name, verb.name) if verb.name else (noun.name,)
        for name in NOUNS
        if (noun := find_noun(name))
        for verb in noun.verbs
        if "json" in verb.formats
    }

    assert known - checked == OF_ITS_OWN


def test_doctor_sees_the_parts_of_the_server(type_in: Type):
    _, out, _ = type_in("doctor")

    assert f"{EMAIL}, admin in Admin workspace" in out
    assert "client and server" in out
    assert "1 can be launched" in out
    assert "backend local" in out


def test_a_run_is_explained(type_in: Type, failed_run: Run):
    code, out, err = type_in("run", "why", failed_run.id, "--exit-status")

    assert code == 10, err
    assert "✗ check exited with code 1" in out
    assert "│ expected 2, got 1" in out
    assert f"next: partita run logs {failed_run.id}" in out


@pytest.mark.parametrize("verb", ["show", "why", "artifacts", "timeline"])
@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_every_view_of_a_run_works(type_in: Type, failed_run: Run, verb: str, form: str):
    code, out, err = type_in("run", verb, failed_run.id, "-o", form)

    assert code == 0, err
    assert out or "exported no files" in err


def test_runs_are_found_by_status_and_suite(type_in: Type, failed_run: Run):
    found = ("run", "list", "-o", "name", "--suite", "demo")

    assert type_in(*found, "--status", "failed")[1] == f"{failed_run.id}\n"
    assert type_in(*found, "--status", "healthy")[1] == ""


def test_a_rerun_is_planned_and_started(type_in: Type, failed_run: Run):
    code, out, err = type_in("run", "rerun", failed_run.id, "--failed", "--dry-run")
    assert code == 0, err
    assert "check" in out

    code, out, err = type_in("run", "rerun", failed_run.id, "--step", "check", "-y", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["rerunOf"] == failed_run.id
    assert type_in("run", "cancel", json.loads(out)["id"], "--reason", "enough")[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "launch", "nosuch"), 3, "suite_not_found"),
        (("run", "launch", "hello", "--profile", "nope.yaml"), 3, "profile_not_in_suite"),
        (("run", "launch", "hello", "--backend", "mars"), 3, "backend_unknown"),
        (("run", "show", "run-000000000000"), 3, "execution_not_found"),
        (("suite", "show", "nosuch"), 3, "suite_not_found"),
        (("profile", "show", "hello", "nope.yaml"), 3, "profile_not_found"),
    ],
)
def test_what_is_unknown_is_said_and_ends_with_three(type_in: Type, words, code: int, said: str):
    ended, out, err = type_in(*words)

    assert (ended, out) == (code, "")
    assert f"error {said}: " in err
    assert "next: " in err or "known" in err


def test_a_finished_run_cannot_be_canceled(type_in: Type, failed_run: Run):
    code, _, err = type_in("run", "cancel", failed_run.id)

    assert code == 5
    assert "next: it has ended" in err


@pytest.mark.parametrize("token", ["pat_unknown", "eyJ.no.jwt", ""])
def test_a_wrong_token_is_refused(type_in: Type, monkeypatch, token: str):
    monkeypatch.setenv("PARTITA_TOKEN", token)

    code, _, err = type_in("run", "list")

    assert code == 4
    assert "partita login http://localhost" in err
