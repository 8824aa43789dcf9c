"""What the API shows of a suite (reference: control-plane 5.1, 6, 9), and when it is evaluated."""

from __future__ import annotations

import threading

import pytest

from apps.suites import api, selectors
from apps.suites.authoring import checks
from apps.suites.evaluator import process
from apps.suites.lifespan import launchable_suites

pytestmark = pytest.mark.slow  # a process for each evaluation

GOOD = 'task.run("t", image="busybox:1.36")\n'
CONTRACT = "{openapi: 3.1.0, paths: {/goods: {get: {operationId: listGoods}}}}"
DEFINITION_KEYS = {
    "id",
    "title",
    "repository",
    "owner",
    "provider",
    "version",
    "tags",
    "description",
    "modules",
    "status",
    "score",
    "state",
    "pullCommand",
    "forkCommand",
    "suiteStar",
    "profiles",
    "folders",
    "sourceFiles",
    "topology",
    "stepCount",
    "contracts",
    "apiSurfaces",
    "launchable",
    "contentDigest",
    "warnings",
}


@pytest.fixture
def evaluations(monkeypatch):
    """The sources that were evaluated, in order."""
    seen: list[str] = []
    real = process.run_evaluator

    def counted(source, **more):
        seen.append(source)
        return real(source, **more)

    monkeypatch.setattr("apps.suites.evaluation.snapshot.run_evaluator", counted)
    return seen


def nulls(value) -> bool:
    if isinstance(value, dict):
        return any(nulls(item) for item in value.values())
    return any(nulls(item) for item in value) if isinstance(value, list) else value is None


def test_a_definition_has_the_keys_of_the_reference_and_no_null(workspace):
    """Invariant 40."""
    definition = workspace.definition(
        'a = service.run(image="x", ports=[1])\nlog.info("x", after=a)\n' + GOOD
    )

    assert set(definition) == DEFINITION_KEYS
    assert not nulls(definition)
    assert (definition["status"], definition["provider"]) == ("Installed", "Workspace")
    assert definition["pullCommand"] == "partita suite pull workspace/s:workspace"
    assert definition["forkCommand"] == "partita suite fork workspace/s:workspace ./s"


def test_every_node_has_the_required_keys_of_the_reference(workspace):
    nodes = workspace.topology(
        'service.run("a", image="x")\n' + GOOD + 'test.run("b")\nlog.info("c")'
    )

    for node in nodes:
        assert {
            "id",
            "name",
            "kind",
            "variant",
            "level",
            "dependsOn",
            "after",
            "onFailure",
            "continueOnFailure",
            "idempotent",
            "retries",
            "timeoutMs",
        } <= set(node)
        assert node["name"] == node["id"]


@pytest.mark.parametrize(
    ("files", "score"),
    [
        ({}, 20),
        ({"README.md": "# T"}, 40),
        ({"README.md": "# T\ndescription"}, 60),
        ({"README.md": "# T\ndescription", "profiles/a.yaml": ""}, 80),
        ({"README.md": "# T\ndescription", "profiles/a.yaml": "", "api/x.yaml": CONTRACT}, 100),
        ({"README.md": "# T\ndescription", "profiles/a.yaml": "", "api/x.yaml": "{"}, 80),
        ({"profiles/base.yaml": ""}, 20),
    ],
)
def test_the_score_is_twenty_points_for_each_merit(workspace, files, score):
    assert workspace.definition({"suite.star": GOOD} | files)["score"] == score


@pytest.mark.parametrize(
    ("files", "launchable"),
    [
        ({}, True),
        ({"profiles/a.yaml": ""}, True),
        ({"profiles/base.yaml": ""}, False),
        ({"profiles/a.yaml": "env: x"}, False),
        ({"profiles/a.yaml": "", "profiles/b.yaml": "env: x"}, True),
        ({"suite.star": "nope"}, False),
    ],
)
def test_what_resolves_under_its_default_profile_is_launchable(workspace, files, launchable):
    assert workspace.definition({"suite.star": GOOD} | files)["launchable"] is launchable


def test_a_broken_default_profile_is_the_topology_error(workspace):
    error = workspace.error({"suite.star": GOOD, "profiles/a.yaml": "name: x\nenv: [y]"})

    assert (error["code"], error["file"], error["line"]) == (
        "profile_invalid",
        "profiles/a.yaml",
        2,
    )


def test_another_broken_profile_is_a_warning(workspace):
    definition = workspace.definition(
        {"suite.star": GOOD, "profiles/a.yaml": "", "profiles/b.yaml": "name: x\nenv: [y]"}
    )

    assert [(each["code"], each["file"], each["line"]) for each in definition["warnings"]] == [
        ("profile_invalid", "profiles/b.yaml", 2)
    ]
    assert [each["fileName"] for each in definition["profiles"]] == ["a.yaml", "b.yaml"]


def test_profiles_are_the_launchable_ones_default_first(workspace):
    definition = workspace.definition(
        {
            "suite.star": GOOD,
            "profiles/a.yaml": "",
            "profiles/base.yaml": "",
            "profiles/z.yaml": "{name: Last, description: D, default: true}",
        }
    )

    assert definition["profiles"] == [
        {"fileName": "z.yaml", "label": "Last", "description": "D", "default": True},
        {"fileName": "a.yaml", "label": "A", "description": "", "default": False},
    ]


def test_a_suite_without_contracts_and_mocks_has_no_surfaces(workspace):
    definition = workspace.definition({"suite.star": GOOD, "dependencies.yaml": ""})

    assert definition["apiSurfaces"] == []
    assert "resolvedDependencies" not in definition
    assert definition["warnings"] == []


def test_modules_are_those_of_profiles_and_loads(workspace):
    definition = workspace.definition(
        {
            "suite.star": 'load("@partita/runtime", "task")\n' + GOOD,
            "profiles/a.yaml": "modules: [kafka, postgres]",
            "profiles/b.yaml": "modules: [kafka]",
        }
    )

    assert definition["modules"] == ["kafka", "postgres", "runtime"]


def test_a_suite_is_evaluated_when_it_changes_and_not_before(workspace, evaluations):
    workspace.add("s", GOOD)
    for _ in range(3):
        api.list_suites()
        api.get_definition("s")
        selectors.resolve("s")
    assert len(evaluations) == 1

    workspace.add("s", GOOD.replace('"t"', '"u"'))

    assert api.get_definition("s")["topology"][0]["id"] == "u"
    assert len(evaluations) == 2


def test_the_same_content_is_evaluated_once_whoever_asks(workspace, evaluations):
    workspace.add("a", GOOD)
    workspace.add("b", GOOD)
    threads = [threading.Thread(target=api.list_suites) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(evaluations) == 1


def test_each_profile_env_has_its_own_evaluation(workspace, evaluations):
    workspace.add(
        "s",
        {
            "suite.star": 'task.run("t-" + env.get("A", "0"), image="x")',
            "profiles/a.yaml": "{default: true, env: {A: 1}}",
            "profiles/b.yaml": "{extendsId: a, env: {A: 2}}",
        },
    )

    assert api.get_definition("s")["topology"][0]["id"] == "t-1"
    assert api.get_definition("s", profile="b.yaml")["topology"][0]["id"] == "t-2"
    assert api.get_definition("s", profile="b")["topology"][0]["id"] == "t-2"
    assert len(evaluations) == 2


def test_a_list_does_not_wait_for_a_slow_suite(workspace, library, monkeypatch):
    release = threading.Event()
    real = process.run_evaluator

    def slow(source, **more):
        release.wait(30)
        return real(source, **more)

    workspace.add("s", GOOD)
    api.list_suites()
    monkeypatch.setattr("apps.suites.evaluation.snapshot.run_evaluator", slow)
    workspace.add("s", GOOD.replace('"t"', '"u"'))
    workspace.add("new", GOOD.replace('"t"', '"v"'))

    library.patience_s = 0.01
    new, old = api.list_suites()
    release.set()
    library.patience_s = None
    new_after, old_after = api.list_suites()

    assert old["topology"][0]["id"] == "t"
    assert "topology" not in new
    assert "topologyError" not in new
    assert not new["launchable"]
    assert [each["code"] for each in new["warnings"]] == ["evaluating"]
    assert (new["state"], new_after["state"]) == ("evaluating", "evaluated")
    assert old_after["topology"][0]["id"] == "u"
    assert new_after["topology"][0]["id"] == "v"


def test_a_reader_may_wait_for_a_suite_that_has_changed(workspace, library, monkeypatch):
    release = threading.Event()
    real = process.run_evaluator

    def slow(source, **more):
        release.wait(30)
        return real(source, **more)

    monkeypatch.setattr("apps.suites.evaluation.snapshot.run_evaluator", slow)
    workspace.add("s", GOOD)
    library.patience_s = 0.01
    (listed,) = api.list_suites()
    at_once = api.get_definition("s", wait_s=0)
    threading.Timer(0.1, release.set).start()
    waited = api.get_definition("s", wait_s=30)

    assert [each["state"] for each in (listed, at_once, waited)] == [
        "evaluating",
        "evaluating",
        "evaluated",
    ]
    assert waited["topology"][0]["id"] == "t"


def test_a_suite_that_is_gone_is_gone(workspace):
    folder = workspace.add("s", GOOD)
    assert len(api.list_suites()) == 1

    (folder / "suite.star").unlink()

    assert api.list_suites() == []
    with pytest.raises(api.SuiteNotFound):
        api.get_definition("s")


def test_without_a_suites_folder_there_are_no_suites(workspace, settings):
    settings.SUITES_DIR = workspace.root / "nowhere"

    assert api.list_suites() == []


def test_a_suite_is_found_by_its_repository(workspace):
    """Invariant 24."""
    workspace.add(
        "s",
        {"suite.star": GOOD, "metadata.yaml": "{repository: reg.example/core/s, version: 1.2.0}"},
    )
    digest = api.get_definition("s")["contentDigest"]

    for reference in (
        "s",
        "reg.example/core/s",
        "reg.example/core/s:1.2.0",
        f"reg.example/core/s@{digest}",
        f"reg.example/core/s:1.2.0@{digest}",
    ):
        assert selectors.resolve(reference).id == "s"
    for reference in ("x", "", "core/s", "reg.example/core/s:1.3.0", "reg.example/core/s@sha256:0"):
        with pytest.raises(api.SuiteNotFound):
            selectors.resolve(reference)


def test_what_python_compiles_in_a_suite_is_no_part_of_it(workspace):
    workspace.add("s", {"suite.star": GOOD, "tests/a.py": "", "tests/__pycache__/a.pyc": b"\xff\0"})

    assert set(selectors.resolve("s").files) == {"suite.star", "tests/a.py"}


def test_a_resolved_suite_carries_what_a_run_needs(workspace):
    workspace.add("s", {"suite.star": GOOD, "tests/a.sh": "echo", "README.md": "# T\nD"})

    resolved = selectors.resolve("s")

    assert (resolved.id, resolved.title, resolved.description) == ("s", "T", "D")
    assert (resolved.repository, resolved.version) == ("workspace/s", "workspace")
    assert resolved.files["tests/a.sh"] == b"echo"
    assert resolved.content_digest == resolved.definition["contentDigest"]
    assert list(resolved.topology) == resolved.definition["topology"]


@pytest.mark.parametrize(
    ("files", "error", "code"),
    [
        (
            {"suite.star": 'x = 1\ntask.run("a", imge=1)'},
            selectors.TopologyInvalid,
            "topology_invalid",
        ),
        ({"suite.star": GOOD, "x": b"\0"}, selectors.PackageInvalid, "package_invalid"),
    ],
)
def test_a_suite_that_does_not_resolve_is_refused_with_its_errors(workspace, files, error, code):
    workspace.add("s", files)

    with pytest.raises(error) as caught:
        selectors.resolve("s")

    assert caught.value.problem_code == code
    assert caught.value.errors[0].file in ("suite.star", "x")
    assert caught.value.members["topologyError"]["message"] == caught.value.detail


def test_readiness_asks_for_one_launchable_suite(workspace):
    workspace.add("bad", "nope")
    api.list_suites()
    assert not launchable_suites().ready

    workspace.add("good", GOOD)
    api.list_suites()

    probed = launchable_suites()
    assert (probed.ready, probed.detail) == (True, "1 of 2 suites can be launched")


def test_every_profile_is_checked_not_only_the_default(workspace):
    star = """
task.run("t", image="busybox:1.36")
if env.get("PLACE") == "far":
    task.run("u", image="busybox:1.36", commmand=["true"])
if env.get("PLACE") == "near":
    task.run("v", image="busybox:1.36")
"""
    workspace.add(
        "s",
        {
            "suite.star": star,
            "profiles/a.yaml": "default: true\n",
            "profiles/b.yaml": "env:\n  PLACE: near\n",
            "profiles/c.yaml": "env:\n  PLACE: far\n",
            "profiles/d.yaml": "extendsId: nobody\n",
            "profiles/e.yaml": "env:\n  PLACE: [1\n",
        },
    )

    verdicts = {each["fileName"]: each for each in checks.check_profiles("s")}

    assert {name: each["stepCount"] for name, each in verdicts.items()} == {
        "a.yaml": 1,
        "b.yaml": 2,
        "c.yaml": 0,
        "d.yaml": 0,
        "e.yaml": 0,
    }
    far, orphan, torn = (verdicts[name]["error"] for name in ("c.yaml", "d.yaml", "e.yaml"))
    assert (far["file"], far["line"]) == ("suite.star", 4)
    assert "commmand" in far["message"]
    assert "nobody" in orphan["message"]
    assert orphan["file"] == "profiles/d.yaml"
    assert torn["file"] == "profiles/e.yaml"
    assert torn["line"] >= 2
