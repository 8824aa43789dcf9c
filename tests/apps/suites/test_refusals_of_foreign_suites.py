"""What a suite of another tool cannot have is refused with file, line and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from apps.suites import api, selectors
from apps.suites.authoring import checks
from apps.suites.services import transfers

CONTRACT = """\
openapi: 3.0.3
info: {title: Pay, version: "1"}
paths:
  /pay/{id}:
    get: {operationId: getPayment, responses: {"200": {description: ok}}}
"""
STAR = 'load("@testbed/runtime", "mock", "task", "test")\n'


class Case(NamedTuple):
    """A file of a suite, where its fault is, and what the message says."""

    path: str
    text: str
    line: int
    hints: tuple[str, ...]


PROFILES = [
    Case("profiles/ci.yaml", "name: CI\nnetwork: {mode: host}\n", 2,
         ('"network"', "write mode: execution", 'not "host"')),
    Case("profiles/ci.yaml", "network:\n  mode: execution\n  aliases: [a]\n", 3,
         ('"network.aliases"', "remove it")),
    Case("profiles/ci.yaml", "services:\n  api:\n    network: bridge\n", 3,
         ('"services.api.network"', "write mode: execution")),
    Case("profiles/ci.yaml", "name: CI\nvolumes: [/data]\n", 2,
         ('"volumes"', "steps share files in $PARTITA_WORKSPACE_DIR")),
    Case("profiles/ci.yaml", "observability:\n  logs: {level: debug}\n", 2,
         ("true, false or a word such as structured", "off, disabled, none")),
    Case("profiles/ci.yaml", "observability:\n  traces: 1\n", 2, ("traces must be true, false",)),
    Case("profiles/ci.yaml", "name: CI\nsecretRefs: [{key: A, provider: vault}]\n", 2,
         ("a secretRef requires ref",)),
]  # fmt: skip
TOPOLOGIES = [
    Case("suite.star", STAR + 'test.run("a", file = "a.pl")\n', 2,
         ('no interpreter for ".pl" files', ".hurl", 'image="…" and command=["program", "a.pl"]')),
    Case("suite.star", STAR + 'mock.serve("m", definition = "shop.yaml")\n', 2,
         ("no contract or mock shop.yaml", "known: api/pay.yaml", 'write surface="shop.yaml"')),
    Case("suite.star", STAR + 'mock.serve("m", definition = "api", surface = "pay")\n', 2,
         ("only one of definition, surface may be set",)),
    Case("suite.star", STAR + 'task.run("a", imge = "x")\n', 2,
         ('unknown keyword "imge"', "known: after, command")),
]  # fmt: skip
MOCKS = [
    Case("mock/pay/a.yaml", "examples:\n  a:\n    response:\n      headers: 'x: 1'\n", 4,
         ("headers must be a mapping or a list", "[{name: x-tenant, value: acme}]")),
    Case("mock/pay/a.yaml", "examples:\n  a:\n    response:\n      headers: [{value: v}]\n", 4,
         ("a header requires name", "{name: x-tenant, value: acme}")),
    Case("mock/pay/a.yaml",
         "examples:\n  a:\n    response:\n      headers: [{name: x, vlaue: v}]\n", 4,
         ('has no key "vlaue"', "did you mean value?")),
    Case("mock/pay/a.yaml",
         "examples:\n  a:\n    response:\n      headers:\n"
         "        - {name: Set-Cookie, value: a=1}\n        - {name: set-cookie, value: b=2}\n", 6,
         ("one Set-Cookie header", "keep one")),
    Case("mock/pay/a.yaml", "examples:\n  a:\n    respons: {body: 1}\n", 3,
         ('no key "respons"', "did you mean response?")),
    Case("mock/pay/a.yaml",
         "examples:\n  a:\n    when:\n      - {from: query, param: q, vaule: x}\n", 4,
         ('no key "vaule"', "did you mean value?")),
    Case("mock/pay/a.yaml", "examples:\n  a:\n    response:\n      staus: 201\n", 4,
         ('response has no key "staus"', "did you mean status?")),
    Case("mock/pay/a.yaml", "examples:\n  a:\n    requestSchema:\n      body: {type: visa}\n", 4,
         ('"visa" is not a type', "write the value below example")),
    Case("mock/pay/a.yaml",
         "examples:\n  a:\n    responseSchema:\n      body: {type: string, exmaple: x}\n", 4,
         ('a node has no key "exmaple"', "did you mean example?")),
    Case("mock/pay/a.yaml",
         "contractPath: api/pays.yaml#/paths/~1pay/get\nexamples: {a: {response: {}}}\n", 1,
         ('the contractPath "api/pays.yaml" is not a file of the suite',)),
    Case("mock/pay/a.yaml",
         "contractPath: api/pay.yaml#refund\nexamples: {a: {response: {}}}\n", 1,
         ('names "refund"', "api/pay.yaml does not declare", "its operations: getPayment")),
    Case("mock/pay/a.metadata.yaml", "spec:\n  fallback: {headers: x}\n", 2,
         ("headers must be a mapping or a list",)),
    Case("mock/pay/a.metadata.yaml", "spec:\n  fallback: {status: soon}\n", 2,
         ('"soon" is not a status',)),
    Case("mock/pay/a.metadata.yaml", "spec:\n  delayMilis: 5\n", 2,
         ("did you mean delayMillis?",)),
    Case("mock/pay/a.cue",
         'examples: a: {\n\trequestSchema: body: {\n\t\tid: string @const()\n\t}\n}\n', 3,
         ("@const: only a literal can be a constant",)),
]  # fmt: skip


def _id(case: Case) -> str:
    return f"{case.path}: {case.hints[0]}"


def definition(workspace: Any, case: Case) -> Mapping[str, Any]:
    files = {
        "suite.star": STAR + 'mock.serve("pay")\n',
        "api/pay.yaml": CONTRACT,
        case.path: case.text,
    }
    if case.path.endswith(".cue"):
        files["mock/pay/a.metadata.yaml"] = "spec: {method: GET, path: /a}\n"
    workspace.add("s", files)
    found: Mapping[str, Any] = api.get_definition("s")
    return found


@pytest.mark.parametrize("case", PROFILES, ids=_id)
def test_a_profile(workspace: Any, case: Case) -> None:
    definition(workspace, case)

    (verdict,) = checks.check_profiles("s")
    error = verdict["error"]
    assert (error["file"], error["line"]) == (case.path, case.line)
    assert [hint for hint in case.hints if hint not in error["message"]] == []


@pytest.mark.parametrize("case", TOPOLOGIES, ids=_id)
def test_a_topology(workspace: Any, case: Case) -> None:
    error = definition(workspace, case)["topologyError"]

    assert (error["file"], error["line"]) == (case.path, case.line)
    assert [hint for hint in case.hints if hint not in error["message"]] == []


@pytest.mark.parametrize("case", MOCKS, ids=_id)
def test_a_mock(workspace: Any, case: Case) -> None:
    warnings = definition(workspace, case)["warnings"]

    fitting = [each for each in warnings if case.hints[0] in each["detail"]]
    assert len(fitting) == 1, warnings
    assert (fitting[0]["file"], fitting[0]["line"]) == (case.path, case.line)
    assert [hint for hint in case.hints if hint not in fitting[0]["detail"]] == []


def test_a_key_of_a_profile_that_is_near_a_known_one(workspace: Any) -> None:
    case = Case("profiles/ci.yaml", "name: CI\nobservabilty: {logs: off}\n", 2, ())

    definition(workspace, case)

    (warning,) = [each for each in checks.lint_suite("s") if each.code == "unknown_key"]
    assert (warning.file, warning.line) == (case.path, case.line)
    assert "did you mean observability?" in warning.message


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        ("tests/Smoke.sh", "tests/smoke.sh", "tests/smoke.sh differs from tests/Smoke.sh by case"),
        ("Tests/a.txt", "tests/b.txt", "tests differs from Tests by case"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt", "cafe\N{COMBINING ACUTE ACCENT}.txt",
         "'caf\\xe9.txt' differs from 'cafe\\u0301.txt' by its Unicode form"),
    ],
)  # fmt: skip
def test_names_that_are_one_on_some_computers(
    workspace: Any, first: str, second: str, shown: str
) -> None:
    workspace.add("s", {"suite.star": STAR + 'mock.serve("pay")\n', first: "1", second: "2"})

    error = api.get_definition("s")["topologyError"]

    assert error["code"] == "package_invalid"
    assert shown in error["message"]
    assert "rename one of them" in error["message"]
    with pytest.raises(selectors.PackageInvalid):
        transfers.push_suite("s", "registry.example/core/s:1.0.0")


def test_all_errors_are_listed_at_once_and_once_for_all_profiles(workspace: Any) -> None:
    star = STAR + (
        'task.run("a", imge = "alpine:3.20")\n'
        'task.run("b", image = "alpine:3.20", after = ["nowhere"])\n'
        'task.run("c", image = "alpine:3.20", retries = "many")\n'
        'test.run("c", image = "alpine:3.20")\n'
    )
    profiles = {f"profiles/{name}.yaml": f"name: {name}\n" for name in ("ci", "local")}
    workspace.add("s", {"suite.star": star, **profiles})

    errors = [each for each in checks.lint_suite("s") if each.severity == "error"]

    assert [(each.code, each.line) for each in errors] == [
        ("unknown_keyword", 2), ("wrong_type", 4), ("duplicate_step", 5), ("unknown_dependency", 3),
    ]  # fmt: skip
    assert not [each for each in errors if "with " in each.message]


def test_an_error_of_one_profile_names_it(workspace: Any) -> None:
    star = STAR + 'task.run("a", image = "alpine:3.20", retries = int(env.get("TRIES", "1")))\n'
    star = star.replace('"test")', '"test", "env")')
    files = {"profiles/ci.yaml": 'env: {TRIES: "99"}\n', "profiles/local.yaml": "name: Local\n"}
    workspace.add("s", {"suite.star": star, **files})

    (error,) = [each for each in checks.lint_suite("s") if each.severity == "error"]

    assert error.message.startswith("with ci.yaml: task.run: retries")
