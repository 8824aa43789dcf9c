"""Steps run again in a kept environment: who may, what is refused, and what stays as it was."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.api import Forbidden, Principal, Role
from apps.executions import api
from apps.executions.domain.kept_environments import NotKept
from apps.executions.domain.repeats import (
    MAX_ACTIVE,
    REPEAT_TRANSITIONS,
    RepeatActive,
    RepeatEvent,
    RepeatFinished,
    RepeatNotFound,
    RepeatRequest,
    RepeatState,
    RepeatUnavailable,
    advance_repeat,
    repeat_topic,
)
from apps.executions.domain.runs import ArtifactNotFound, ExecutionNotFound
from apps.executions.domain.states import IllegalTransition
from apps.executions.models import Artifact, Blob, Execution, StepRepeat
from apps.executions.selectors.artifact_files import artifact_file
from apps.executions.selectors.junit_report import junit_document
from apps.executions.selectors.logs import log_pages
from apps.executions.selectors.repeats import get_repeat, list_repeats, repeat_detail, repeat_file
from apps.executions.services import repeat_claims, storage
from apps.executions.services import repeats as repeat_services
from apps.executions.services.repeat_claims import cancel_unkept_repeats, end_expired_repeats
from apps.executions.services.repeats import cancel_repeat, files_of_archive, repeat_step
from apps.executions.services.secrets import SecretUnresolved
from apps.executions.services.storage import remove_old_runs
from apps.streams.api import read
from kernel import clock
from kernel.agent_protocol import ArtifactUpload, Job, StateReport
from kernel.errors import InvalidInput
from readers.archive import pack
from tests.apps.executions.kept import ask, chunk, completion, end_keeping, kept_run, take
from tests.apps.executions.mocks import MockPlane
from tests.apps.executions.runs import Run, Worker, node
from tests.apps.executions.test_expected_calls import call
from tests.support.people import somebody

JUNIT = b"""<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>"""


def lines(repeat: StepRepeat, kind: str = "output") -> list[str]:
    chunks = read(repeat_topic(repeat.repeat_id), after=0, limit=10_000)
    found = [json.loads(record) for each in chunks for record in each.records]
    return [line["text"] for line in found if line["kind"] == kind]


def again(repeat: StepRepeat) -> StepRepeat:
    return StepRepeat.objects.get(pk=repeat.pk)


def in_role(run: Run, role: Role) -> Principal:
    member = somebody(workspace_id=run.principal.workspace_id)
    return member.with_role(role)


def everything_of(run: Run) -> str:
    """What people read of a run, as text."""
    detail = api.detail(run.principal, run.id)
    document = junit_document(run.principal, run.id)
    log = b"".join(log_pages(run.id, "ndjson"))
    events = run.events()
    return json.dumps([detail, str(document), log.decode(), events], sort_keys=True, default=str)


def upload(path: str = "out.txt", body: bytes = b"text", **facts: Any) -> ArtifactUpload:
    defaults = {"name": "", "format": "raw", "on": "always", "media_type": "text/plain"}
    return ArtifactUpload(path=path, body=body, **{**defaults, **facts})


@pytest.mark.parametrize("state", RepeatState)
@pytest.mark.parametrize("event", RepeatEvent)
def test_the_table_alone_names_the_next_state(state: RepeatState, event: RepeatEvent):
    if (state, event) in REPEAT_TRANSITIONS:
        assert advance_repeat(state, event) is REPEAT_TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition):
            advance_repeat(state, event)


def test_a_step_runs_again_as_its_next_attempt(worker: Worker):
    run = kept_run(worker)

    repeat = ask(run, command="sh fix.sh", env={"BREAK": "no"})
    [claim] = take(worker)
    prepared = api.prepare_repeat(claim)

    assert prepared is not None
    spec = prepared.spec
    assert (repeat.attempt, spec["attempt"]) == (2, 2)
    assert spec["jobId"] == run.step("seed").job_id
    assert spec["node"]["commands"] == ["sh fix.sh"]
    assert (spec["env"]["BREAK"], spec["env"]["SIZE"]) == ("no", "3")
    assert spec["env"]["PARTITA_ATTEMPT"] == "2"
    assert spec["keepUnits"] is True


def test_it_ends_with_a_verdict_of_its_own_and_the_run_stays_as_it_was(worker: Worker):
    run = kept_run(worker)
    before = everything_of(run)

    repeat = ask(run)
    [claim] = take(worker)
    api.prepare_repeat(claim)
    job = Job(job_id="", attempt=0)
    api.record_repeat_state(claim, StateReport(job=job, state="running"))
    api.record_repeat_lines(claim, chunk("one", "two"))
    api.record_repeat_lines(claim, chunk("one", "two", "three"))  # sent again, with one more
    api.store_repeat_artifact(claim, upload())
    api.complete_repeat(claim, completion(final_seq=3))
    api.complete_repeat(claim, completion(final_seq=3))  # its answer was lost

    document = repeat_detail(again(repeat), run.id)
    assert document["state"] == "succeeded"
    assert document["sentence"].startswith("#2 succeeded in ")
    assert [each["path"] for each in document["artifacts"]] == ["out.txt"]
    assert lines(repeat) == ["one", "two", "three"]
    assert everything_of(run) == before


def test_a_test_report_fails_it_and_says_nothing_about_the_run(worker: Worker):
    exports = [{"path": "report.xml", "format": "junit", "on": "always"}]
    run = kept_run(worker, node("seed", kind="test", artifactExports=exports))
    before = everything_of(run)

    repeat = ask(run)
    [claim] = take(worker)
    api.store_repeat_artifact(claim, upload("report.xml", JUNIT, format="junit"))
    api.complete_repeat(claim, completion())

    ended = again(repeat)
    assert (ended.state, ended.reason, ended.detail) == (
        "failed", "test_failures", "1 of 2 tests failed",
    )  # fmt: skip
    assert everything_of(run) == before
    assert api.failed_cases(run.principal, run.id) == []


def test_calls_of_mocks_are_judged_since_its_own_start(worker: Worker, plane: MockPlane):
    expected = [{"mocks": ["psp"], "operation": "pay", "atLeast": 1}]
    run = kept_run(
        worker,
        node("seed", expectCalls=expected, resetMocks=["psp"]),
        mocks={"psp": {"pay": "rest"}},
    )
    plane.calls[f"demo@{run.id}"] = [call(time=clock.now())]

    repeat = ask(run)
    [claim] = take(worker)
    api.prepare_repeat(claim)
    api.complete_repeat(claim, completion())

    ended = again(repeat)
    assert (ended.state, ended.reason) == ("failed", "test_failures")
    assert "expected psp: pay" in ended.detail
    assert "the state of psp is empty" in lines(repeat, "system")
    assert [each.path for each in ended.artifacts.all()] == ["expect_calls.xml"]


def test_a_secret_that_cannot_be_read_any_more_fails_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker)

    def refuse(*_: Any, **__: Any) -> Any:
        raise SecretUnresolved({"key": "T", "provider": "local", "ref": "t"}, "there is none")

    monkeypatch.setattr(repeat_claims, "step_spec", refuse)
    assert api.prepare_repeat(claim) is None

    ended = again(repeat)
    assert (ended.state, ended.reason) == ("failed", "secret_unresolved")
    assert "secret T of provider" in ended.detail


def test_a_service_that_is_ready_is_left_running(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run, "db")
    [claim] = take(worker)

    directive = api.record_repeat_state(
        claim, StateReport(job=Job(job_id="", attempt=0), state="healthy")
    )
    api.complete_repeat(claim, completion(exit_code=None))

    assert directive.cancel_reason == "detach"
    assert again(repeat).state == "succeeded"
    assert lines(repeat, "system")[-1].endswith("and runs on")


def test_a_step_that_never_ran_can_run(worker: Worker):
    run = kept_run(worker)
    assert run.step("check").status == "skipped"

    repeat = ask(run, "check")
    [claim] = take(worker)
    api.complete_repeat(claim, completion("failed", reason="exit_nonzero", exit_code=3, error="3"))

    ended = again(repeat)
    assert (ended.attempt, ended.state, ended.exit_code) == (1, "failed", 3)
    assert run.step("check").status == "skipped"


def test_other_files_are_kept_with_it_and_go_with_the_run(worker: Worker):
    run = kept_run(worker)
    files = {"tasks/seed.sh": b"echo other"}

    repeat = ask(run, files=files)
    [claim] = take(worker)
    prepared = api.prepare_repeat(claim)
    api.complete_repeat(claim, completion())

    assert prepared is not None
    assert prepared.step_files == pack(files)
    assert Blob.objects.filter(sha256=repeat.content_sha256).exists()
    end_keeping(run)
    storage.delete(run.principal, run.id)
    remove_old_runs()
    assert not StepRepeat.objects.exists()
    assert not Blob.objects.filter(sha256=repeat.content_sha256).exists()
    assert read(repeat_topic(repeat.repeat_id), after=0, limit=9) == []


def tar_with(name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"step": "sead"}, "did you mean seed"),
        ({"step": "note"}, "only writes a line"),
        ({"env": {"1A": "x"}}, "begins with no digit"),
        ({"env": {"PARTITA_STEP_ID": "x"}}, "set by the platform"),
        ({"env": {"A": "\x00"}}, "NUL"),
        ({"env": {f"A{n}": "" for n in range(101)}}, "at most 100"),
        ({"env": {"A": "x" * 32_769}}, "at most 32768"),
        ({"command": "x" * 10_001}, "at most 10000"),
    ],
)
def test_what_no_step_can_have_is_refused_with_the_field(
    worker: Worker, facts: dict[str, Any], words: str
):
    run = kept_run(worker)

    with pytest.raises(InvalidInput, match=words) as refused:
        ask(run, **{"step": "seed", **facts})

    assert refused.value.errors[0].pointer.startswith("/")
    assert not StepRepeat.objects.exists()


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (b"no archive", "not a valid gzip stream"),
        (tar_with("../up"), "leads out of the package"),
        (pack({}), "has no files"),
    ],
    ids=["no archive", "a path out of it", "no files"],  # the bytes have the time of the collection
)
def test_an_archive_is_read_by_the_rules_for_packages(archive: bytes, words: str):
    with pytest.raises(InvalidInput, match=words) as refused:
        files_of_archive(archive)

    assert refused.value.errors[0].pointer == "/contentBase64"


def test_a_step_runs_again_once_at_a_time(worker: Worker):
    run = kept_run(worker)
    first = ask(run)

    with pytest.raises(RepeatActive, match=first.repeat_id):
        ask(run)
    take(worker)
    with pytest.raises(RepeatActive):
        ask(run)


def test_an_environment_runs_a_few_steps_at_once(worker: Worker):
    nodes = [node("seed"), *(node(f"s{n}") for n in range(MAX_ACTIVE + 1))]
    run = kept_run(worker, *nodes)
    for number in range(MAX_ACTIVE):
        ask(run, f"s{number}")

    with pytest.raises(RepeatActive, match="4 steps of this run"):
        ask(run, f"s{MAX_ACTIVE}")


def test_the_repeats_of_a_run_are_bounded(worker: Worker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeat_services, "MAX_REPEATS", 1)
    run = kept_run(worker)
    ask(run)
    [claim] = take(worker)
    api.complete_repeat(claim, completion())

    with pytest.raises(RepeatUnavailable, match="1 times"):
        ask(run)


def test_only_a_kept_environment_has_room_for_it(worker: Worker):
    run = kept_run(worker)
    end_keeping(run)

    with pytest.raises(NotKept):
        ask(run)


def test_a_worker_on_another_host_is_refused_with_a_sentence(worker: Worker):
    run = kept_run(worker)
    Execution.objects.filter(pk=run.pk).update(backend_kind="remote-agent")

    with pytest.raises(RepeatUnavailable, match="a worker, which cannot"):
        ask(run)


def test_viewers_and_other_workspaces_may_not(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    request = RepeatRequest(step="seed")

    with pytest.raises(Forbidden):
        repeat_step(in_role(run, Role.VIEWER), run.id, request)
    with pytest.raises(Forbidden):
        cancel_repeat(in_role(run, Role.VIEWER), run.id, repeat.repeat_id)
    stranger = somebody()
    for refused in (
        lambda: repeat_step(stranger, run.id, request),
        lambda: cancel_repeat(stranger, run.id, repeat.repeat_id),
        lambda: get_repeat(stranger, run.id, repeat.repeat_id),
        lambda: list_repeats(stranger, run.id),
        lambda: repeat_file(stranger, run.id, repeat.repeat_id, "x"),
    ):
        with pytest.raises(ExecutionNotFound):
            refused()


def test_a_repeat_is_found_in_its_own_run_alone(worker: Worker):
    run, other = kept_run(worker), kept_run(worker)
    repeat = ask(run)
    Execution.objects.filter(pk=other.pk).update(workspace_id=run.row.workspace_id)

    for repeat_id in (repeat.repeat_id, "repeat-nothing", "\x00"):
        with pytest.raises(RepeatNotFound):
            get_repeat(run.principal, other.id, repeat_id)


def test_one_that_waits_is_canceled_at_once(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)

    document = cancel_repeat(run.principal, run.id, repeat.repeat_id)

    assert document["state"] == "canceled"
    assert take(worker) == []
    with pytest.raises(RepeatFinished):
        cancel_repeat(run.principal, run.id, repeat.repeat_id)


def test_one_that_runs_is_stopped_by_its_runner(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker)

    document = cancel_repeat(run.principal, run.id, repeat.repeat_id)
    [directive] = api.renew_repeats([claim]).values()
    api.complete_repeat(claim, completion("canceled"))

    assert (document["state"], document["canceling"]) == ("running", True)
    assert directive is not None
    assert directive.cancel_reason == "canceled"
    assert again(repeat).state == "canceled"


def test_what_waits_ends_with_the_environment(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    end_keeping(run)

    cancel_unkept_repeats()

    ended = again(repeat)
    assert (ended.state, ended.detail) == ("canceled", "the environment is no longer kept")


def test_what_runs_ends_with_the_environment(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker)
    end_keeping(run)

    [directive] = api.renew_repeats([claim]).values()
    api.complete_repeat(claim, completion("failed", reason="exit_nonzero", exit_code=137))

    assert directive is not None
    assert directive.cancel_reason == "canceled"
    assert (again(repeat).state, again(repeat).reason) == ("canceled", "canceled")


def test_a_runner_that_starts_again_ends_what_it_ran(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker, "process-1")

    [lost] = api.lost_repeats(worker.agent_id, "process-2")
    api.end_lost_repeat(lost)

    ended = again(repeat)
    assert (ended.state, ended.reason) == ("failed", "agent_lost")
    assert "the runner restarted" in ended.detail
    assert api.renew_repeats([claim]) == {claim: None}
    assert api.lost_repeats(worker.agent_id, "process-2") == []


def test_a_runner_that_never_comes_back_leaves_nothing_running(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    take(worker)
    end_expired_repeats()
    assert again(repeat).state == "running"

    StepRepeat.objects.update(lease_expires_at=clock.now() - timedelta(minutes=5))
    end_expired_repeats()

    assert (again(repeat).state, again(repeat).reason) == ("failed", "agent_lost")


def test_its_unit_stays_when_the_supervisor_registers_again(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    take(worker)
    job = Job(job_id=repeat.job_id, attempt=repeat.attempt)

    kept = api.adopt(worker.supervisor, [job])
    end_keeping(run)
    over = api.adopt(worker.supervisor, [job])

    assert (kept.keep, kept.drop) == ((), ())
    assert over.drop == (repeat.job_id,)


def test_its_log_is_bounded_like_that_of_a_run(worker: Worker, settings: Any):
    settings.EXECUTION_LOG_MAX_BYTES = 200
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker)

    for number in range(5):
        api.record_repeat_lines(claim, chunk("x" * 100, seq=number))
    api.complete_repeat(claim, completion(final_seq=5))

    assert len(lines(repeat)) < 5
    assert any("lines were dropped" in text for text in lines(repeat, "system"))


def test_artifacts_of_a_repeat_are_downloaded_below_it_alone(worker: Worker):
    run = kept_run(worker)
    repeat = ask(run)
    [claim] = take(worker)
    artifact_id = api.store_repeat_artifact(claim, upload(body=b"made"))
    api.complete_repeat(claim, completion())

    file = repeat_file(run.principal, run.id, repeat.repeat_id, artifact_id)

    assert file.body == b"made"
    assert Artifact.objects.count() == 1
    with pytest.raises(ArtifactNotFound):
        artifact_file(run.principal, run.id, artifact_id)
