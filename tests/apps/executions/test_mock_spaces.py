"""The mock spaces of runs: what each serves, from the snapshot of the run, until it ends."""

from __future__ import annotations

from typing import Any

import pytest

from apps.executions import api
from apps.executions.domain.runs import ExecutionNotFound
from apps.executions.domain.steps import mock_addresses
from apps.executions.models import Execution
from apps.executions.selectors.mock_spaces import RUN_SPACES
from apps.executions.services.storage import remove_old_runs
from apps.mocks.api import SpaceName, reset_space
from apps.mocks.models import MockSpace
from apps.suites.domain.flat_topology import ImportedSuite
from kernel import clock
from mocks.spaces import space_sources
from tests.apps.executions.runs import Run, Worker, booted_run, node, queued_run
from tests.support.people import somebody


def mocked(text: str) -> dict[str, bytes]:
    """The files of a suite with one surface `psp`, whose only operation answers this text."""
    example = f"examples: {{any: {{response: {{body: {text}}}}}}}"
    return {"suite.star": text.encode(), "mock/psp/pay.yaml": example.encode()}


def imported(path: str, suite_id: str, text: str) -> ImportedSuite:
    return ImportedSuite(
        path=path, suite_id=suite_id, title=suite_id.title(), repository=f"w/{suite_id}",
        version="1", digest=text, files=mocked(text), secret_refs=(),
    )  # fmt: skip


def inside(path: str, suite_id: str, **facts: Any) -> dict[str, Any]:
    return node(
        f"{path}/psp", kind="mock", sourceSuiteId=suite_id, sourceSuiteTitle=suite_id.title(),
        sourceRepository=f"w/{suite_id}", **facts,
    )  # fmt: skip


@pytest.fixture
def run() -> Run:
    return queued_run(
        node("psp", kind="mock"),
        inside("old", "pay"),
        inside("new", "pay"),
        inside("new/deep", "bank"),
        files=mocked("own"),
        imports=(
            imported("old", "pay", "first"),
            imported("new", "pay", "second"),
            imported("new/deep", "bank", "money"),
        ),
        mocks={"psp": {"psp": "rest"}, "new/psp": {"psp": "rest", "x": "grpc"}},
    )


def answer(name: SpaceName) -> str | None:
    content = RUN_SPACES.load(name)
    if content is None:
        return None
    assert RUN_SPACES.generations([name]) == {name: content.generation}
    (surface,) = content.surfaces
    return surface.operations[0].exchanges[0].response.body


def test_each_space_serves_the_files_of_its_own_suite(run: Run):
    spaces = {
        SpaceName("demo", run.id): "own",
        SpaceName("pay", run.id, "old"): "first",
        SpaceName("pay", run.id, "new"): "second",
        SpaceName("bank", run.id, "new/deep"): "money",
    }

    assert {name: answer(name) for name in spaces} == spaces
    content = RUN_SPACES.load(SpaceName("bank", run.id, "new/deep"))
    assert content is not None
    assert (content.suite_id, content.title, content.repository) == ("bank", "Bank", "w/bank")
    assert "mock/psp/pay.yaml" in content.files


def test_there_is_no_space_of_another_suite_path_or_run(run: Run):
    wrong = [
        SpaceName("pay", run.id),
        SpaceName("demo", run.id, "old"),
        SpaceName("pay", run.id, "new/deep"),
        SpaceName("pay", run.id, "gone"),
        SpaceName("demo", "run-000000000000"),
        SpaceName("demo"),
    ]

    assert [RUN_SPACES.load(name) for name in wrong] == [None] * len(wrong)
    assert RUN_SPACES.generations(wrong) == {}


@pytest.mark.parametrize("ended", ["finished_at", "deleted_at"])
def test_a_space_ends_with_its_run(run: Run, ended: str):
    name = SpaceName("demo", run.id)
    Execution.objects.filter(pk=run.pk).update(**{ended: clock.now()})

    assert RUN_SPACES.load(name) is None
    assert RUN_SPACES.generations([name]) == {}


def test_a_suite_without_files_has_a_space_that_serves_nothing():
    run = queued_run(node("a"))
    content = RUN_SPACES.load(SpaceName("demo", run.id))

    assert content is not None
    assert content.surfaces == ()


def test_members_of_the_workspace_see_the_mock_nodes_of_a_run(run: Run):
    assert api.mock_spaces(run.principal, run.id) == [
        ("new/psp", SpaceName("pay", run.id, "new"), ("psp", "x")),
        ("psp", SpaceName("demo", run.id), ("psp",)),
    ]
    with pytest.raises(ExecutionNotFound):
        api.mock_spaces(somebody(), run.id)


def test_the_data_plane_finds_the_spaces_of_runs():
    assert space_sources["run"] is RUN_SPACES


def keys(step_id: str) -> dict[str, str]:
    """What a step calls, by the keys that it knows."""
    mocks = {
        "psp": {"psp": "rest"},
        "all": {"psp": "rest", "bank": "grpc", "empty": ""},
        "pay/psp": {"psp": "rest"},
        "pay/deep/psp": {"psp": "rest"},
    }
    found = mock_addresses(mocks, step_id)
    return {key: f"{each.node_id} {each.adapter}" for key, each in found.items()}


def test_a_step_knows_the_mocks_of_the_run_by_id_and_surface():
    assert keys("t") == {
        "psp": "psp rest",
        "all#psp": "all rest",
        "all#bank": "all grpc",
        "pay/psp": "pay/psp rest",
        "pay/deep/psp": "pay/deep/psp rest",
    }


def test_a_step_of_an_imported_suite_knows_the_mocks_of_its_suite_by_their_own_ids():
    assert keys("pay/api") == {**keys("t"), "psp": "pay/psp rest"}
    assert keys("pay/deep/api") == {**keys("t"), "psp": "pay/deep/psp rest"}


def test_steps_get_the_addresses_of_the_mocks_of_their_run(worker: Worker, settings):
    settings.MOCK_BASE_URL = "http://mocks:8090"
    settings.STEP_ENV_PREFIXES = ("PARTITA", "ACME")
    run = booted_run(
        node("t", env={"PARTITA_MOCK_PSP_URL": "mine"}),
        inside("old", "pay"),
        files=mocked("own"),
        imports=(imported("old", "pay", "first"),),
        mocks={"psp": {"psp": "rest"}, "old/psp": {"psp": "rest", "x y": "grpc"}},
    )
    worker.claim()

    spec = worker.jobs["t"]
    base = "http://mocks:8090/mocks"
    assert spec["mockUrls"] == {
        "psp": f"{base}/rest/demo@{run.id}/psp",
        "old/psp#psp": f"{base}/rest/pay@{run.id}+old/psp",
        "old/psp#x y": f"{base}/grpc/pay@{run.id}+old/x%20y",
    }
    variables = {name: url for name, url in spec["env"].items() if "_MOCK_" in name}
    assert variables == {
        f"{prefix}_{name}": url
        for prefix in ("PARTITA", "ACME")
        for name, url in {
            "MOCK_BASE_URL": "http://mocks:8090",
            "MOCK_PSP_URL": spec["mockUrls"]["psp"],
            "MOCK_OLD_PSP_PSP_URL": spec["mockUrls"]["old/psp#psp"],
            "MOCK_OLD_PSP_X_Y_URL": spec["mockUrls"]["old/psp#x y"],
        }.items()
    }


def test_the_store_forgets_the_spaces_of_removed_runs(run: Run):
    other = queued_run(node("a"))
    for each in (run, other):
        reset_space(SpaceName("demo", each.id))
    Execution.objects.filter(pk=run.pk).update(deleted_at=clock.now())

    remove_old_runs()

    assert list(MockSpace.objects.values_list("execution_id", flat=True)) == [other.id]
