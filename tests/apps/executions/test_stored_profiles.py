"""Launches go by stored profiles, imports by the files (reference: control-plane 8, 10)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.api import Principal, Role
from apps.executions.api import LaunchRequest, launch, launch_suites
from apps.executions.models import Execution
from apps.executions.selectors.definitions import run_definition
from apps.executions.services import launch as launching
from apps.platform_settings.api import backends
from apps.profiles.api import (
    Draft,
    ProfileInvalid,
    ProfileNotInSuite,
    create_profile,
    delete_profile,
)
from apps.suites.api import current_profiles, find_suite, list_suites, profile_edit
from apps.suites.domain.definition import suite_of
from apps.suites.domain.package import Package
from apps.suites.evaluation.library import library
from tests.support.files import write_files
from tests.support.people import somebody

pytestmark = [pytest.mark.django_db, pytest.mark.store]
CHILD = 'load("@partita/runtime", "task")\ntask.run(name = "t", image = "busybox:1.36")\n'
PARENT = 'load("@partita/runtime", "suite")\nsuite.run(name = "inner", ref = "child")\n'


@pytest.fixture(autouse=True)
def suites(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.SUITES_DIR = tmp_path / "suites"
    settings.PROFILES_FILE = tmp_path / "svc-profiles.yaml"
    files = {
        "child/suite.star": CHILD,
        "child/profiles/ci.yaml": "env: {WHO: file}\n",
        "parent/suite.star": PARENT,
        "parent/dependencies.yaml": "dependencies: {child: {ref: child}}\n",
    }
    write_files(settings.SUITES_DIR, files)
    monkeypatch.setattr(launching, "reasons_to_wait", lambda: lambda _backend: "")
    monkeypatch.setattr(launching, "enqueue", lambda *_: None)
    assert backends()
    found: Path = settings.SUITES_DIR
    return found


def ada() -> Principal:
    return somebody(role=Role.RUNNER)


def store(name: str, text: str, suite_id: str = "child", **more: Any) -> None:
    draft = Draft(name=name, file_name=f"{name}.yaml", yaml=text, **more)
    create_profile(profile_edit(ada(), find_suite(suite_id)), draft)


def launched(suite_id: str = "child", profile: str = "") -> dict[str, Any]:
    """The profile that a run was stored with."""
    run = launch(ada(), LaunchRequest(suite_id=suite_id, profile=profile))
    row = Execution.objects.get(run_id=run["id"])
    definition = run_definition(row.snapshot_id)
    return {"file": row.profile, "env": definition.profile["env"], "nodes": definition.nodes}


def test_the_stored_default_is_used_and_a_deleted_file_is_not(suites):
    store("nightly", "env: {WHO: stored}", default=True)

    assert launched()["env"] == {"WHO": "stored"}
    assert launched(profile="ci")["env"] == {"WHO": "file"}
    delete_profile(profile_edit(ada(), find_suite("child")), "ci")
    with pytest.raises(ProfileNotInSuite, match=r"known: nightly\.yaml"):
        launched(profile="ci.yaml")


def test_a_base_is_launched_when_it_is_named(suites):
    store("slow", "env: {WHO: base}", launchable=False)

    assert launched()["file"] == "ci.yaml"
    assert launched(profile="slow")["env"] == {"WHO": "base"}
    offered = next(each for each in launch_suites() if each["id"] == "child")
    assert [each["fileName"] for each in offered["profiles"]] == ["ci.yaml"]


def test_a_chain_that_breaks_later_is_refused_with_its_place(suites):
    store("nightly", "extendsId: ci")
    (suites / "child/profiles/ci.yaml").unlink()

    with pytest.raises(ProfileInvalid, match=r'nightly\.yaml: extendsId "ci" is not a profile'):
        launched(profile="nightly")


def test_an_import_goes_by_the_files(suites):
    store("nightly", "env: {WHO: stored}", default=True)

    (inner,) = launched("parent")["nodes"]

    assert inner["runtimeEnv"]["WHO"] == "file"


def test_a_run_keeps_what_it_was_launched_with(suites):
    store("nightly", "env: {WHO: stored}", default=True)
    run = launch(ada(), LaunchRequest(suite_id="child"))
    delete_profile(profile_edit(ada(), find_suite("child")), "nightly")

    row = Execution.objects.get(run_id=run["id"])
    assert (row.profile, run_definition(row.snapshot_id).profile["env"]) == (
        "nightly.yaml",
        {"WHO": "stored"},
    )


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_list_reads_stored_profiles_once(suites, django_assert_max_num_queries):
    """However many suites there are, a list asks once whether anything has changed."""
    for number in range(40):
        folder = suites / f"s{number}" / "profiles"
        folder.mkdir(parents=True)
        (folder.parent / "suite.star").write_text(CHILD)
        (folder / "ci.yaml").write_text(f"env: {{N: '{number}'}}\n")
    for number in range(0, 40, 2):
        store("nightly", "env: {WHO: stored}", f"s{number}")
    list_suites()

    with django_assert_max_num_queries(12):  # of the sources, and one for profiles
        started = time.process_time()
        found = list_suites()
        used_ms = (time.process_time() - started) * 1000

    assert len(found) == 42
    assert used_ms < 60
    assert sum(len(each["profiles"]) for each in found) == 20 * 2 + 20 + 1
    assert current_profiles(find_suite("s2")).default


def test_a_launch_runs_the_suite_that_was_found_though_its_tag_moves(monkeypatch):
    reference = "registry.example/core/shop:1"
    star = 'load("@partita/runtime", "task")\ntask.run(name = "{}", image = "busybox:1.36")\n'
    packages = [
        suite_of(Package(suite_id="shop", files={"suite.star": star.format(name).encode()}))
        for name in ("before", "after")
    ]
    index = library.index
    monkeypatch.setattr(index, "find", lambda named: packages.pop(0) if named == reference else 0)

    (node,) = launched(reference)["nodes"]

    assert node["id"] == "before"
