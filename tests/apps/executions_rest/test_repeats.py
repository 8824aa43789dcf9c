"""/executions/{id}/repeats over HTTP: a step again in the kept environment."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import LimitHit, Membership
from apps.executions import api
from apps.executions.models import StepRepeat
from apps.executions.rest import repeats as views
from apps.streams.services.hub import stop_hub
from readers.archive import pack
from tests.apps.executions.kept import NODES, chunk, completion, end_keeping, kept_run, take
from tests.apps.executions.runs import Run, Worker
from tests.apps.executions.test_repeats import upload
from tests.apps.executions_rest.conftest import Caller
from tests.apps.executions_rest.test_shared_stream import shared
from tests.apps.executions_rest.test_streams import streaming
from tests.support.api_clients import problem
from tests.support.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_settings_file(settings, tmp_path):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"


@pytest.fixture
def worker(db) -> Worker:
    return Worker()


@pytest.fixture
def run(ada: Caller, worker: Worker) -> Run:
    return kept_run(worker, *NODES, principal=somebody(workspace_id=ada.workspace_id))


def ask(caller: Caller, run: Run, **body: Any) -> Any:
    return caller.post(f"executions/{run.id}/repeats", {"stepId": "seed", **body})


def encoded(files: dict[str, bytes]) -> str:
    return base64.b64encode(pack(files)).decode()


def test_a_step_is_asked_to_run_again(ada: Caller, run: Run):
    files = encoded({"suite.star": b"", "tasks/seed.sh": b"echo"})
    answer = ask(ada, run, command="true", env={"BREAK": "no"}, contentBase64=files)

    body = answer.json()
    assert answer.status_code == 201, body
    assert answer["Location"] == f"/api/v1/executions/{run.id}/repeats/{body['id']}"
    assert (body["stepId"], body["attempt"], body["state"]) == ("seed", 2, "queued")
    assert (body["command"], body["env"]) == ("true", ["BREAK"])
    assert body["files"]["size"] > 0
    assert body["sentence"] == "#2 waits for a runner"


def test_it_is_listed_shown_and_downloaded(ada: Caller, run: Run, worker: Worker):
    first = ask(ada, run).json()
    [claim] = take(worker)
    artifact = api.store_repeat_artifact(claim, upload(body=b"made"))
    api.complete_repeat(claim, completion())
    second = ask(ada, run).json()

    listed = ada.get(f"executions/{run.id}/repeats").json()
    shown = ada.get(f"executions/{run.id}/repeats/{first['id']}").json()
    [found] = shown["artifacts"]
    file = ada.client.get(found["href"], headers={"Authorization": ada.bearer})

    assert [each["id"] for each in listed["repeats"]] == [second["id"], first["id"]]
    assert listed["total"] == 2
    assert (shown["state"], shown["exitCode"], found["id"]) == ("succeeded", 0, artifact)
    assert file.content == b"made"
    assert ada.get(f"executions/{run.id}").json()["artifacts"] == []
    assert problem(ada.get(f"executions/{run.id}/artifacts/{artifact}"))[1] == "artifact_not_found"


def test_it_is_canceled(ada: Caller, run: Run):
    repeat = ask(ada, run).json()
    path = f"executions/{run.id}/repeats/{repeat['id']}/cancel"

    answer = ada.post(path)

    assert (answer.status_code, answer.json()["state"]) == (202, "canceled")
    assert problem(ada.post(path)) == (409, "repeat_finished")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"stepId": "sead"}, "/stepId"),
        ({"env": {"PARTITA_X": ""}}, "/env/PARTITA_X"),
        ({"env": {"A": 1}}, "/env"),
        ({"contentBase64": "%"}, "/contentBase64"),
        ({"contentBase64": "AAAA"}, "/contentBase64"),
        ({"more": 1}, "/more"),
    ],
)
def test_bad_input_is_refused_with_its_field(ada: Caller, run: Run, body: Any, pointer: str):
    answer = ask(ada, run, **body)

    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)


def test_an_environment_that_is_not_kept_is_a_conflict(ada: Caller, run: Run):
    end_keeping(run)

    assert problem(ask(ada, run)) == (409, "not_kept")


def test_a_second_one_at_once_is_a_conflict_that_names_the_first(ada: Caller, run: Run):
    first = ask(ada, run).json()

    answer = ask(ada, run)

    assert problem(answer) == (409, "repeat_active")
    assert answer.json()["repeatId"] == first["id"]


def test_viewers_read_and_do_nothing(ada: Caller, run: Run):
    repeat = ask(ada, run).json()
    Membership.objects.filter(user=ada.user).update(role="viewer")
    accounts_memory._cache.clear()

    assert problem(ask(ada, run)) == (403, "role_required")
    path = f"executions/{run.id}/repeats/{repeat['id']}"
    assert problem(ada.post(f"{path}/cancel")) == (403, "role_required")
    assert ada.get(path).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", ""),
        ("post", ""),
        ("get", "/{id}"),
        ("post", "/{id}/cancel"),
        ("get", "/{id}/logs"),
        ("get", "/{id}/artifacts/x"),
    ],
)
def test_a_foreign_run_answers_like_an_unknown_one(
    ada: Caller, bob: Caller, run: Run, method: str, path: str
):
    repeat = ask(ada, run).json()

    for run_id in (run.id, "run-000000000000"):
        below = path.format(id=repeat["id"])
        answer = getattr(bob, method)(f"executions/{run_id}/repeats{below}")
        assert problem(answer) == (404, "execution_not_found")
    assert StepRepeat.objects.get().state == "queued"


def test_they_are_limited_by_the_minute(ada: Caller, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "REPEATS_A_MINUTE", 1)
    LimitHit.objects.all().delete()
    ask(ada, run)

    assert problem(ask(ada, run)) == (429, "rate_limited")


@pytest.fixture
async def _one_hub():
    yield
    await stop_hub()
    await sync_to_async(connections.close_all)()


@pytest.mark.usefixtures("_one_hub")
async def test_the_log_is_replayed_and_ends_alone_and_among_shared_streams(
    ada: Caller, run: Run, worker: Worker
):
    def work() -> str:
        repeat = ask(ada, run).json()
        [claim] = take(worker)
        api.record_repeat_lines(claim, chunk("hello"))
        api.complete_repeat(claim, completion(final_seq=1))
        return f"executions/{run.id}/repeats/{repeat['id']}/logs"

    path = await sync_to_async(work)()

    async with streaming(path, ada) as stream:
        alone = await stream.rest()
    async with streaming(shared(path), ada) as stream:
        among = await stream.rest()

    assert any('"text":"hello"' in frame and '"repeatId":"repeat-' in frame for frame in alone)
    assert alone[-1].startswith('event: end\ndata: {"status":"succeeded"')
    assert any('"text":"hello"' in frame for frame in among)
