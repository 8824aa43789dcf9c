"""Suites that exist only in a registry: a real one (reference: control-plane 5, 8)."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from apps.accounts.api import Principal, Role
from apps.catalog import api as catalog
from apps.oci import api as oci
from apps.oci.models import LayerPart
from apps.platform_settings.api import registries
from apps.profiles.api import Draft, create_profile
from apps.suites import api, selectors
from apps.suites.authoring import locks
from apps.suites.evaluation.library import Library
from apps.suites.selectors import PackageUnreachable, TopologyInvalid
from apps.suites.sources.registry_packages import packages
from kernel.errors import PlatformError
from tests.apps.suites.conftest import use_library
from tests.support.people import somebody
from tests.support.registry_suites import REGISTRY_ID, TestRegistry, package

PAYMENTS = 'task.run(name = "pay", image = "a:1", file = "pay.sh")\n'
PARENT = 'suite.run(name = "pay", ref = "payments")\n'
METADATA = "{id: payments, title: Payments, repository: elsewhere/payments, version: 9}"


@pytest.fixture(autouse=True)
def _store(transactional_db) -> None:
    """Threads pull packages: they must see what is stored."""


@pytest.fixture
def registry(workspace, settings, tmp_path) -> TestRegistry:
    registry = TestRegistry()
    registry.configure(settings, tmp_path)
    return registry


@pytest.fixture
def pushed(registry) -> oci.Pushed:
    return push(registry, "1.4.0")


def push(registry: TestRegistry, tag: str, star: str = PAYMENTS, **more: str) -> oci.Pushed:
    files = package(star, **{"tasks__pay.sh": "echo pay", "metadata_yaml": METADATA, **more})
    return oci.push(f"{registry.repository('payments')}:{tag}", files, force=True)


def runner() -> Principal:
    return somebody(role=Role.RUNNER)


def another_process(monkeypatch) -> None:
    """Nothing is in memory: what is read now comes from the store."""
    packages._suites.clear()
    packages._tags.clear()
    use_library(monkeypatch, Library())


def importing(workspace, ref: str, lock: str = "") -> None:
    files = {"suite.star": PARENT, "dependencies.yaml": f"dependencies: {{payments: '{ref}'}}"}
    if lock:
        files["dependencies.lock.yaml"] = lock
    workspace.add("parent", files)


def test_a_synchronized_suite_is_listed_and_resolves(registry, pushed, workspace):
    workspace.add("own", 'task.run("t", image="a:1")')
    assert not oci.sync_registry(REGISTRY_ID).errors

    shown = {each["id"]: each for each in api.list_suites()}

    assert set(shown) == {"own", "payments"}
    definition = shown["payments"]
    assert (definition["status"], definition["title"]) == ("Verified", "Payments")
    assert (definition["provider"], definition["version"]) == ("Distribution", "1.4.0")
    assert definition["repository"] == registry.repository("payments")
    assert definition["digest"] == pushed.digest
    assert definition["contentDigest"] == pushed.content_digest
    assert definition["tags"] == ["registry"]
    assert selectors.resolve("payments").files["tasks/pay.sh"] == b"echo pay"
    assert api.find_suite(f"{registry.repository('payments')}:1.4.0").suite_id == "payments"


def test_an_id_is_assigned_once_and_kept(registry, pushed, workspace):
    workspace.add("payments", 'task.run("t", image="a:1")')
    oci.sync_registry(REGISTRY_ID)
    slug = f"{registry.folder}-payments"
    assert {each["id"] for each in api.list_suites()} == {"payments", slug}

    (workspace.root / "payments" / "suite.star").unlink()

    assert {each["id"] for each in api.list_suites()} == {slug}
    assert {each.suite_id for each in Library().suites()} == {slug}


def test_one_package_in_several_repositories_is_one_suite_with_several_sources(
    registry, pushed, workspace
):
    files = package(PAYMENTS, **{"tasks__pay.sh": "echo pay", "metadata_yaml": METADATA})
    copy = f"{registry.repository('zcopy')}:1"
    assert oci.push(copy, files).digest == pushed.digest
    oci.assign_suite_id(registry.repository("zcopy"), "known-before")
    oci.sync_registry(REGISTRY_ID)

    (found,) = api.list_suites()

    assert (found["id"], found["repository"]) == ("payments", registry.repository("payments"))
    assert found["sources"] == [f"{registry.repository('payments')}:1.4.0", copy]
    assert api.find_suite(copy).suite_id == "payments"
    assert api.find_suite("known-before").digest == found["contentDigest"]
    linked = [
        entry["package"] for entry in catalog.list_entries() if entry["package"]["kind"] == "suite"
    ]
    assert {each["repository"]: each["suiteId"] for each in linked} == {
        registry.repository("payments"): "payments",
        registry.repository("zcopy"): "payments",
    }


def test_the_hint_of_an_unknown_id_begins_with_the_suites_of_the_workspace(
    registry, pushed, workspace
):
    workspace.add("zebra", 'task.run("t", image="a:1")')
    oci.sync_registry(REGISTRY_ID)

    with pytest.raises(api.SuiteNotFound, match="known: zebra, payments"):
        api.find_suite("nosuch")


def test_a_suite_that_was_not_synchronized_is_pulled_on_demand(registry, pushed, workspace):
    found = selectors.resolve(f"{registry.repository('payments')}:1.4.0")

    assert (found.id, found.version) == ("payments", "1.4.0")
    assert [node["id"] for node in found.topology] == ["pay"]
    with pytest.raises(api.SuiteNotFound):
        selectors.resolve(f"{registry.repository('payments')}:7")


def test_a_suite_on_demand_takes_neither_id_nor_profiles_nor_place_of_another(
    registry, pushed, workspace, library, settings, tmp_path
):
    settings.PROFILES_FILE = tmp_path / "svc-profiles.yaml"
    library.patience_s = 5.0  # as in a server
    workspace.add("payments", 'task.run("own", image="a:1")')
    draft = Draft(name="Own", file_name="own.yaml", yaml="env: {A: own}")
    create_profile(api.profile_edit(runner(), api.find_suite("payments")), draft)

    found = api.find_suite(f"{registry.repository('payments')}:1.4.0")
    assert found.suite_id == f"{registry.folder}-payments"
    assert found.profiles == ()
    shown = api.get_definition(f"{registry.repository('payments')}:1.4.0")
    assert [node["id"] for node in shown["topology"]] == ["pay"]
    assert [node["id"] for node in api.get_definition("payments")["topology"]] == ["own"]


def test_another_version_on_demand_is_not_shown_in_place_of_the_listed_one(
    registry, pushed, workspace, library
):
    oci.sync_registry(REGISTRY_ID)
    library.patience_s = 5.0
    push(registry, "0.9.0", 'task.run("older", image="a:1")\n')

    other = api.get_definition(f"{registry.repository('payments')}:0.9.0")

    assert (other["id"], other["version"]) == ("payments", "0.9.0")
    listed = api.get_definition("payments")
    assert (listed["version"], [each["id"] for each in listed["topology"]]) == ("1.4.0", ["pay"])


def test_a_registry_that_does_not_answer_is_502_for_its_suite_only(
    registry, workspace, settings, tmp_path
):
    away = registry.settings_text(url="http://127.0.0.1:9").replace(registry.host, "127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(away)
    workspace.add("own", 'task.run("t", image="a:1")')
    importing(workspace, f"127.0.0.1:9/{registry.folder}/payments:1")

    with pytest.raises(oci.RegistryUnreachable):
        api.find_suite(f"127.0.0.1:9/{registry.folder}/payments:1")
    with pytest.raises(PackageUnreachable):
        selectors.resolve("parent")
    shown = {each["id"]: each for each in api.list_suites()}
    assert "topology" in shown["own"]
    assert shown["parent"]["topologyError"]["code"] == "dependency_unresolved"


def test_an_import_without_a_lock_works_with_a_warning(registry, pushed, workspace):
    importing(workspace, f"{registry.repository('payments')}:1.4.0")

    definition = api.get_definition("parent")

    node = dict(definition["topology"][0])
    assert (node["id"], node["sourceSuiteId"]) == ("pay/pay", "payments")
    assert node["digest"] == pushed.digest
    assert node["resolvedRef"] == f"{registry.repository('payments')}:1.4.0"
    assert [each["code"] for each in definition["warnings"]] == ["unlocked_dependency"]
    assert api.get_definition("parent")["topology"] == definition["topology"]


def test_a_lock_pins_the_package_although_its_tag_moves(registry, pushed, workspace):
    importing(workspace, f"{registry.repository('payments')}:1.4.0")
    lock = locks.lock_suite("parent", write=True)
    assert [each.after for each in lock.dependencies] == [pushed.digest]

    moved = push(registry, "1.4.0", 'task.run(name = "other", image = "a:1")')

    assert moved.digest != pushed.digest
    definition = api.get_definition("parent")
    assert [node["id"] for node in definition["topology"]] == ["pay/pay"]
    assert definition["resolvedDependencies"][0]["locked"]
    assert definition["warnings"] == []
    assert [each.state for each in locks.lock_suite("parent", write=False).dependencies] == [
        "changed"
    ]


def test_a_new_lock_shows_what_it_changes(registry, workspace, capsys):
    push(registry, "1", 'task.run(name = "a", image = "x:1")\ntask.run(name = "b", image = "x:1")')
    importing(workspace, f"{registry.repository('payments')}:1")
    locks.lock_suite("parent", write=True)
    push(
        registry,
        "1",
        'task.run(name = "a", image = "x:2", env = {"LOG": "debug"})',
        api__v1_yaml="openapi: 3.1.0",
    )

    found = api.lock_difference("parent").difference

    assert (found["added"], found["removed"], found["changed"]) == ([], ["pay/b"], [])
    assert found["images"] == [{"name": "pay/a", "before": "x:1", "after": "x:2"}]
    assert found["env"][0]["changes"] == [{"name": "LOG", "before": "", "after": "debug"}]
    assert [each["name"] for each in found["contracts"]] == ["pay/api/v1.yaml"]
    with pytest.raises(SystemExit) as ended:
        call_command("suite", "lock", "--check", "parent")
    assert ended.value.code == 1
    said = capsys.readouterr().out
    for line in ("- step pay/b", "~ image of pay/a: x:1 → x:2", "~ env of pay/a: LOG: – → debug"):
        assert line in said


def test_a_lock_needs_the_registry_and_says_so(registry, pushed, workspace, settings):
    importing(workspace, f"{registry.repository('payments')}:1.4.0")
    away = registry.settings_text(url="http://127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(away)
    importing(workspace, f"127.0.0.1:9/{registry.folder}/payments:1.4.0")

    with pytest.raises(PackageUnreachable, match="127\\.0\\.0\\.1:9"):
        locks.lock_suite("parent", write=True)
    assert not (workspace.root / "parent" / "dependencies.lock.yaml").exists()


def test_several_versions_of_one_repository_in_one_run(registry, workspace):
    one = push(registry, "1", 'task.run(name = "one", image = "a:1")')
    two = push(registry, "2", 'task.run(name = "two", image = "a:1")')
    repository = registry.repository("payments")
    star = 'suite.run(name = "a", ref = "old")\nsuite.run(name = "b", ref = "new")\n'
    refs = f"{{old: '{repository}@{one.digest}', new: '{repository}@{two.digest}'}}"
    workspace.add("both", {"suite.star": star, "dependencies.yaml": f"dependencies: {refs}"})

    resolved = selectors.resolve("both")

    assert [node["id"] for node in resolved.topology] == ["a/one", "b/two"]
    assert {each.path: each.suite_id for each in resolved.imports} == {
        "a": "payments",
        "b": "payments",
    }


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("", "version_required", "name its version or its digest"),
        (":latest", "latest_refused", "name a version or a digest"),
        (":9", "dependency_unresolved", "9"),
        (f"@sha256:{'0' * 64}", "dependency_unresolved", "0000"),
    ],
)
def test_a_package_that_cannot_be_resolved(registry, pushed, workspace, end, code, said):
    importing(workspace, f"{registry.repository('payments')}{end}")

    error = api.get_definition("parent")["topologyError"]

    assert error["code"] == code
    assert said in error["message"]


def test_a_tampered_package_refuses_the_launch(registry, pushed, workspace, monkeypatch):
    importing(workspace, f"{registry.repository('payments')}@{pushed.digest}")
    assert selectors.resolve("parent").topology
    for part in LayerPart.objects.all():
        part.content = bytes(part.content)[:-1] + b"x"
        part.save()

    another_process(monkeypatch)

    with pytest.raises(PlatformError, match="digest") as refused:
        selectors.resolve("parent")
    assert refused.value.problem_code in ("topology_invalid", "package_invalid")


def test_stored_bytes_that_changed_hide_no_other_suite(registry, pushed, workspace):
    """Invariant 25."""
    files = package('task.run("o", image="a:1")')
    oci.push(f"{registry.repository('orders')}:1", files)
    oci.sync_registry(REGISTRY_ID)
    LayerPart.objects.filter(digest=pushed.digest).update(content=b"other bytes")

    shown = {suite.metadata.repository: suite for suite in Library().suites()}

    broken = shown[registry.repository("payments")].package_problem
    assert broken is not None
    assert shown[registry.repository("orders")].package_problem is None


def test_a_new_name_of_the_provider_is_in_the_next_answer(registry, pushed, workspace, settings):
    oci.sync_registry(REGISTRY_ID)
    assert api.get_definition("payments")["provider"] == "Distribution"

    text = registry.settings_text().replace("provider: Distribution", "provider: Renamed")
    settings.PLATFORM_SETTINGS_FILE.write_text(text)
    assert registries()[0].provider == "Renamed"

    assert api.get_definition("payments")["provider"] == "Renamed"


def test_a_pinned_digest_of_another_package_refuses_the_launch(registry, pushed, workspace):
    lock = f"locks: {{payments: {{digest: 'sha256:{'1' * 64}'}}}}"
    importing(workspace, f"{registry.repository('payments')}:1.4.0", lock)

    with pytest.raises(TopologyInvalid):
        selectors.resolve("parent")


def test_a_package_that_is_no_suite_is_not_listed_and_a_broken_one_is(registry, workspace):
    """Invariant 25."""
    oci.push(f"{registry.repository('broken')}:1", {"README.md": b"# No topology\n"})
    oci.push(
        f"{registry.repository('module')}:1",
        {"module.star": b"x = 1\n"},
        artifact_type=oci.MODULE_TYPE,
    )
    oci.sync_registry(REGISTRY_ID)

    (only,) = api.list_suites()

    assert only["id"] == f"{registry.folder}-broken"
    assert only["status"] == "Invalid"
    assert only["topologyError"]["message"].endswith("suite.star is missing")
