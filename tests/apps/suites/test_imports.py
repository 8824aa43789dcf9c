"""Suites inside suites (reference: control-plane 8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.suites import api, selectors
from apps.suites.selectors import TopologyInvalid

pytestmark = pytest.mark.slow  # a process for each evaluation

CHILD = """
pg = service.run(name = "pg", image = "a:1")
psp = service.run(name = "psp", image = "a:1")
api = service.run(name = "api", image = "a:1", after = [pg, psp], env = {"OWN": "1"})
task.run(name = "seed", image = "a:1", after = [pg])
"""
PARENT = """
db = service.run(name = "db", image = "a:1")
pay = suite.run(name = "pay", ref = "payments", after = [db])
test.run(name = "e2e", image = "a:1", after = [pay])
"""
DEPENDENCIES = """
dependencies:
  payments:
    ref: registry.example/core/payments
    version: 1.4.0
    profile: ci.yaml
    inputs: {REGION: eu}
"""
CI = "env: {LOG: info}\nservices: {api: {env: {LOG: debug}}}\n"
METADATA = "repository: registry.example/core/payments\nversion: 1.4.0\ntitle: Payments\n"


@pytest.fixture
def payments(workspace):
    workspace.add(
        "payments", {"suite.star": CHILD, "profiles/ci.yaml": CI, "metadata.yaml": METADATA}
    )


def parent(star: str = PARENT, dependencies: str = DEPENDENCIES, **more: str) -> dict[str, str]:
    return {"suite.star": star, "dependencies.yaml": dependencies} | more


def importing(alias: str, ref: str = "") -> dict[str, str]:
    return parent(
        f'suite.run(name = "{alias}", ref = "{alias}")',
        f"dependencies: {{{alias}: {ref or alias}}}",
    )


def test_the_worked_example_of_the_reference(workspace, payments):
    nodes = {node["id"]: node for node in workspace.topology(parent())}

    shown = {key: (node["level"], node["dependsOn"]) for key, node in nodes.items()}
    assert shown == {
        "db": (0, []),
        "pay/pg": (1, ["db"]),
        "pay/psp": (1, ["db"]),
        "pay/api": (2, ["pay/pg", "pay/psp"]),
        "pay/seed": (2, ["pay/pg"]),
        "e2e": (3, ["pay/api", "pay/seed"]),
    }
    own = {
        key: {name: text for name, text in node["runtimeEnv"].items() if "_DEPENDENCY_" not in name}
        for key, node in nodes.items()
        if "runtimeEnv" in node
    }
    assert own == {
        "pay/pg": {"LOG": "info", "REGION": "eu"},
        "pay/psp": {"LOG": "info", "REGION": "eu"},
        "pay/api": {"LOG": "debug", "REGION": "eu"},
        "pay/seed": {"LOG": "info", "REGION": "eu"},
    }
    seed = nodes["pay/seed"]
    assert seed["name"] == "pay/seed"
    assert {
        key: seed[key] for key in ("sourceSuiteId", "sourceSuiteTitle", "sourceRepository")
    } == {
        "sourceSuiteId": "payments",
        "sourceSuiteTitle": "Payments",
        "sourceRepository": "registry.example/core/payments",
    }
    assert seed["sourceVersion"] == "1.4.0"
    assert seed["dependencyAlias"] == "payments"
    assert seed["resolvedRef"] == "registry.example/core/payments:1.4.0"
    assert seed["runtimeProfile"] == "ci.yaml"
    assert seed["runtimeEnv"]["PARTITA_DEPENDENCY_REF"] == "registry.example/core/payments"
    assert "sourceSuiteId" not in nodes["db"]


def test_the_definition_says_what_was_resolved(workspace, payments):
    assert workspace.definition(parent())["resolvedDependencies"] == [
        {
            "alias": "payments",
            "ref": "registry.example/core/payments",
            "version": "1.4.0",
            "resolved": "registry.example/core/payments:1.4.0",
            "profile": "ci.yaml",
            "inputs": {"REGION": "eu"},
            "suiteId": "payments",
            "suiteTitle": "Payments",
            "repository": "registry.example/core/payments",
            "locked": False,
        }
    ]


def test_a_failure_of_an_import_is_a_failure_of_any_of_its_steps(workspace, payments):
    star = PARENT + 'task.run(name = "tidy", image = "a:1", on_failure = [pay])'
    tidy = next(node for node in workspace.topology(parent(star)) if node["id"] == "tidy")

    assert tidy["onFailure"] == ["pay/pg", "pay/psp", "pay/api", "pay/seed"]
    assert tidy["dependsOn"] == tidy["onFailure"]


def test_an_import_after_an_import_waits_for_all_that_nothing_in_it_waits_for(workspace, payments):
    star = """
a = suite.run(name = "a", ref = "payments")
b = suite.run(name = "b", ref = "payments", after = [a])
"""
    nodes = {node["id"]: node for node in workspace.topology(parent(star))}

    assert nodes["b/pg"]["after"] == ["a/api", "a/seed"]
    assert nodes["b/api"]["after"] == ["b/pg", "b/psp"]


def test_who_depends_on_an_import_does_not_wait_for_its_failure_handlers(workspace):
    star = """
seed = task.run(name = "seed", image = "a:1")
undo = task.run(name = "undo", image = "a:1", on_failure = [seed])
task.run(name = "report", image = "a:1", after = [undo])
"""
    workspace.add("leaf", star)
    nodes = workspace.topology(
        parent(
            'task.run(name = "e2e", image = "a:1", after = [suite.run(name = "x", ref = "leaf")])',
            "dependencies: {leaf: leaf}",
        )
    )

    assert next(each for each in nodes if each["id"] == "e2e")["after"] == ["x/seed"]


def test_an_import_inside_an_import_keeps_its_origin_and_takes_the_outer_env(workspace):
    workspace.add("leaf", 'task.run(name = "t", image = "a:1")')
    middle = importing("leaf") | {"profiles/default.yaml": "env: {A: middle}\n"}
    workspace.add("middle", middle)
    (node,) = workspace.topology(importing("middle"))

    assert node["id"] == "middle/leaf/t"
    assert node["sourceSuiteId"] == "leaf"
    assert node["dependencyAlias"] == "leaf"
    assert node["runtimeEnv"]["A"] == "middle"
    assert node["runtimeEnv"]["PARTITA_DEPENDENCY_ALIAS"] == "leaf"


def test_the_files_of_every_import_come_with_the_resolved_suite(workspace):
    workspace.add("leaf", 'task.run(name = "t", image = "a:1")')
    workspace.add("middle", importing("leaf"))
    workspace.add("s", importing("middle"))

    found = {each.path: each.suite_id for each in selectors.resolve("s").imports}
    assert found == {"middle": "middle", "middle/leaf": "leaf"}


@pytest.mark.parametrize(
    ("dependencies", "code", "said"),
    [
        (
            "dependencies: {other: payments}",
            "dependency_missing",
            'no entry "payments"; known: other',
        ),
        (
            "dependencies: {payments: nowhere}",
            "dependency_unresolved",
            'no suite "nowhere"; known: ',
        ),
        (
            "dependencies: {payments: 'payments:latest'}",
            "latest_refused",
            "name a version or a digest",
        ),
        (
            "dependencies: {payments: {ref: 'payments:1.4.0', version: 2.0.0}}",
            "version_mismatch",
            "is not the version 2.0.0",
        ),
        (
            "dependencies: {payments: 'payments:9'}",
            "dependency_unresolved",
            "the workspace has 1.4.0",
        ),
        (
            f"dependencies: {{payments: 'payments@sha256:{'0' * 64}'}}",
            "digest_mismatch",
            "partita suite lock",
        ),
        (
            "dependencies: {payments: {ref: payments, profile: none.yaml}}",
            "dependency_profile_missing",
            "known: ci.yaml",
        ),
    ],
)
def test_a_dependency_that_cannot_be_resolved(dependencies, code, said, workspace, payments):
    error = workspace.error(parent(dependencies=dependencies))

    assert error["code"] == code
    assert error["message"].startswith("invalid suite topology: payments: ")
    assert said in error["message"]
    assert (error["file"], error["line"]) == ("suite.star", 3)


@pytest.mark.parametrize(
    ("dependencies", "said", "line"),
    [
        ("dependencies: [a]", "dependencies must be a mapping", 1),
        ("dependencies:\n  a: {version: '1'}", "a dependency requires ref", 2),
        ("dependencies:\n  a: {ref: x, inputs: {1x: y}}", "is not a valid name for an input", 2),
        ("dependencies:\n  a: 'x@sha256:12'", "is not a reference", 2),
        ("dependencies:\n  a: x\n  a: y", "a", 3),
    ],
)
def test_an_unreadable_file_is_a_broken_package(dependencies, said, line, workspace):
    error = workspace.error(parent(dependencies=dependencies))

    assert error["code"] == "package_invalid"
    assert said in error["message"]
    assert (error["file"], error["line"]) == ("dependencies.yaml", line)


def test_an_error_in_an_imported_suite_names_the_aliases_and_the_place(workspace):
    workspace.add("leaf", "task.run(\n  imge = 'a:1')")
    workspace.add("middle", importing("leaf"))
    error = workspace.error(importing("middle"))

    assert error["code"] == "unknown_keyword"
    assert "middle: leaf: task.run: unknown keyword" in error["message"]
    assert error["message"].endswith("(leaf/suite.star:1:1)")
    assert (error["file"], error["line"]) == ("suite.star", 1)


def test_suites_that_import_each_other(workspace):
    workspace.add("a", importing("b"))
    workspace.add("b", importing("c"))
    workspace.add("c", importing("a"))
    error = api.get_definition("a")["topologyError"]

    assert error["code"] == "suite_cycle"
    assert "b: c: a: suites import each other: a -> b -> c -> a" in error["message"]


@pytest.mark.parametrize(("levels", "resolves"), [(8, True), (9, False)])
def test_imports_are_at_most_eight_levels_deep(levels, resolves, workspace):
    workspace.add("s0", 'task.run(name = "t", image = "a:1")')
    for level in range(1, levels + 1):
        workspace.add(f"s{level}", importing(f"s{level - 1}"))

    definition = api.get_definition(f"s{levels}")
    assert ("topology" in definition) is resolves
    if not resolves:
        assert "more than 8 levels" in definition["topologyError"]["message"]


def test_imports_that_multiply_stop_at_the_limit_of_nodes(workspace, settings):
    settings.SUITE_MAX_NODES = 50
    workspace.add("s0", 'task.run(name = "t", image = "a:1")')
    for level in range(1, 8):
        twice = f'[suite.run(name = "i%d" % n, ref = "s{level - 1}") for n in range(2)]'
        workspace.add(f"s{level}", parent(twice, f"dependencies: {{s{level - 1}: s{level - 1}}}"))

    assert api.get_definition("s7")["topologyError"]["code"] == "too_many_nodes"


def test_ids_that_would_be_the_same_container_are_refused(workspace, payments):
    star = PARENT + 'task.run(name = "pay-api", image = "a:1")'

    error = workspace.error(parent(star))
    assert error["code"] == "duplicate_step"
    assert '"pay/api"' in error["message"]
    assert error["line"] == 3


def test_a_lock_pins_the_content(workspace, payments):
    digest = api.find_suite("payments").digest
    lock = f"locks: {{payments: {{ref: payments, digest: '{digest}'}}}}"
    files = parent(dependencies="dependencies: {payments: payments}") | {
        "dependencies.lock.yaml": lock
    }
    (resolved,) = workspace.definition(files)["resolvedDependencies"]
    assert (resolved["digest"], resolved["locked"]) == (digest, True)
    assert resolved["resolved"] == f"payments@{digest}"

    workspace.add("payments", {"README.md": "# another content\n"})
    with pytest.raises(TopologyInvalid, match="pinned to") as refused:
        selectors.resolve("s")
    assert refused.value.problem.code == "digest_mismatch"


def test_a_lock_of_another_reference_is_not_used_and_said(workspace, payments):
    lock = f"locks: {{payments: {{ref: other, digest: 'sha256:{'0' * 64}'}}, gone: x}}"
    definition = workspace.definition(
        parent(dependencies="dependencies: {payments: payments}") | {"dependencies.lock.yaml": lock}
    )

    assert "topology" in definition
    said = [each["detail"] for each in definition["warnings"] if each["code"] == "lock_outdated"]
    assert len(said) == 2


def test_a_change_of_an_imported_suite_is_seen_at_once(workspace):
    workspace.add("leaf", 'task.run(name = "t", image = "a:1")')
    workspace.add("s", importing("leaf"))
    assert [node["id"] for node in api.get_definition("s")["topology"]] == ["leaf/t"]

    workspace.add("leaf", 'task.run(name = "another", image = "a:1")')
    assert [node["id"] for node in api.get_definition("s")["topology"]] == ["leaf/another"]


def test_importers_and_the_list_share_an_imported_suite_without_hindering_each_other(workspace):
    """The importers are evaluated while what they import still waits for its turn in the list."""
    for name in "abz":
        workspace.add(name, f'task.run("t{name}", image = "a:1")')
    for name in "pqrs":
        workspace.add(name, importing("z"))

    listed = {each["id"]: each for each in api.list_suites()}

    steps = {name: [node["id"] for node in listed[name]["topology"]] for name in listed}
    assert steps == {name: [f"t{name}"] for name in "abz"} | {key: ["z/tz"] for key in "pqrs"}


def test_an_unknown_keyword_of_an_import_is_refused(workspace):
    error = workspace.error(parent('suite.run("x", ref = "payments", image = "a:1")'))
    assert error["code"] == "unknown_keyword"

    error = workspace.error(parent('suite.run("x")'))
    assert error["code"] == "missing_argument"


EXAMPLES = Path(__file__).parents[3] / "examples" / "oci-suites"


def test_the_example_resolves_to_the_table_of_its_readme(settings, library):
    settings.SUITES_DIR = EXAMPLES
    nodes = api.get_definition("composite")["topology"]

    rows = re.findall(
        r"^\| (\d+) \| (.*?) \| (.*?)\|$", (EXAMPLES / "composite/README.md").read_text(), re.M
    )
    expected = {
        step: (int(level), set(re.findall("`(.*?)`", needs)))
        for level, steps, needs in rows
        for step in re.findall("`(.*?)`", steps)
    }
    assert {node["id"]: (node["level"], set(node["dependsOn"])) for node in nodes} == expected


def typed(*words: str) -> int:
    """The exit code of a `manage.py suite …`."""
    try:
        call_command("suite", *words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_the_locks_of_the_examples_are_up_to_date(settings, library):
    settings.SUITES_DIR = EXAMPLES
    assert typed("lock", "--check") == 0


def test_a_lock_is_checked_written_and_renewed(workspace, payments, capsys):
    folder = workspace.add("s", parent(dependencies="dependencies: {payments: payments}"))
    lock = folder / "dependencies.lock.yaml"

    assert typed("lock", "--check") == 1
    assert not lock.exists()
    assert typed("lock", "s") == 0
    assert "added    payments" in capsys.readouterr().out
    assert typed("lock", "--check") == 0
    assert selectors.resolve("s").definition["resolvedDependencies"][0]["locked"]

    workspace.add("payments", {"README.md": "# another content\n"})
    assert typed("lock", "--check") == 1
    assert "changed  payments" in capsys.readouterr().out
    with pytest.raises(TopologyInvalid):
        selectors.resolve("s")
    assert typed("lock") == 0
    assert selectors.resolve("s").topology
    assert [path.name for path in folder.glob(".lock-*")] == []


def test_a_lock_drops_a_pinned_module_that_nothing_loads(workspace, payments, capsys):
    pin = f"registry.example/acme/things@sha256:{'0' * 64}"
    folder = workspace.add(
        "s",
        parent(dependencies="dependencies: {payments: payments}")
        | {"dependencies.lock.yaml": f"modules: {{'@acme/things': '{pin}'}}\n"},
    )

    assert typed("lock") == 0
    assert "removed  @acme/things" in capsys.readouterr().out
    assert "acme" not in (folder / "dependencies.lock.yaml").read_text()


def test_a_lock_of_an_import_that_does_not_resolve_names_it_and_writes_nothing(
    workspace, payments, capsys
):
    folder = workspace.add("s", parent(dependencies="dependencies: {payments: nowhere}"))

    assert typed("lock", "s") == 1
    assert 'payments: there is no suite "nowhere"' in capsys.readouterr().err
    assert not (folder / "dependencies.lock.yaml").exists()


def test_the_example_is_the_topology_derived_by_hand(settings, library):
    """The table of docs/suites.md: steps, levels, edges and env (reference: control-plane 8)."""
    settings.SUITES_DIR = EXAMPLES
    text = (EXAMPLES.parents[1] / "docs" / "suites.md").read_text()
    table = text.partition("<!-- composite: begin -->")[2].partition("<!-- composite: end -->")[0]
    by_hand = [
        (step, int(level), re.findall("`(.*?)`", needs), re.findall("`(.*?)`", env))
        for step, level, needs, env in re.findall(
            r"^\| `(\S+)` \| (\d+) \| (.*?) \| (.*?) \|$", table, re.M
        )
    ]

    nodes = api.get_definition("composite")["topology"]

    assert by_hand == [
        (
            node["id"],
            node["level"],
            node["dependsOn"],
            [
                f"{name}={value}"
                for name, value in node.get("runtimeEnv", {}).items()
                if "_DEPENDENCY_" not in name
            ],
        )
        for node in nodes
    ]


def test_an_unknown_key_of_the_dependencies_names_the_one_that_was_meant(workspace):
    """The same rule as in profiles: a warning."""
    workspace.add("inner", 'task.run("t", image="a:1")\n')
    definition = workspace.definition(
        {
            "suite.star": 'suite.run(name = "i", ref = "inner")\n',
            "dependencies.yaml": "dependencies: {inner: {ref: inner, profil: x}}\n",
            "profiles/ci.yaml": "name: CI\nextendId: other\n",
        }
    )

    said = [each["detail"] for each in definition["warnings"] if each["code"] == "unknown_key"]
    assert [each.rpartition("; ")[2] for each in said] == [
        "did you mean profile?",
        "did you mean extendsId?",
    ]
