"""Mock nodes: the surfaces that they serve, of the suite and of imported ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from apps.suites import selectors
from apps.suites.authoring import checks

EXAMPLE = "examples: {any: {response: {body: {ok: true}}}}"
MOCKS = {
    "mock/psp/pay.yaml": EXAMPLE,
    "mock/psp/refund.yaml": EXAMPLE,
    "mock/bank/Transfer.yaml": EXAMPLE,
    "mock/bank/Transfer.metadata.yaml": "spec: {protocol: gRPC}",
}


def served(workspace, star: str) -> Mapping[str, Any]:
    """The surfaces of each mock node, with their adapters."""
    workspace.add("s", {"suite.star": star, **MOCKS})
    return selectors.resolve("s").mocks


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('mock.serve("psp")', {"psp": "rest"}),
        ('service.mock("bank")', {"bank": "grpc"}),
        ('mock.serve("all")', {"psp": "rest", "bank": "grpc"}),
        ('mock.serve("psp", surface="bank")', {"bank": "grpc"}),
        ('mock.serve("m", surface=["psp", "bank"])', {"psp": "rest", "bank": "grpc"}),
    ],
)
def test_a_mock_serves_the_surface_of_its_name_or_all(workspace, call, expected):
    mocks = served(workspace, call + "\n")

    assert list(mocks.values()) == [expected]


def test_a_surface_that_the_suite_lacks_is_refused_before_a_run(workspace):
    text = 'x = 1\nmock.serve("m", surface=["psp", "pps"])\n'
    error = workspace.error({"suite.star": text, **MOCKS})

    assert (error["code"], error["file"], error["line"]) == (
        "mock_surface_missing", "suite.star", 2,
    )  # fmt: skip
    assert error["message"].endswith(
        '"m" serves "pps", which is no surface of the suite; known: bank, psp; did you mean psp?'
    )
    assert workspace.definition({"suite.star": text})["launchable"] is False
    with pytest.raises(selectors.TopologyInvalid) as refused:
        selectors.resolve("s")
    assert refused.value.problem.code == "mock_surface_missing"
    assert [each.code for each in checks.lint_suite("s")] == ["mock_surface_missing"]


def test_a_suite_without_surfaces_has_mocks_that_serve_nothing(workspace):
    workspace.add("s", 'mock.serve("m")\n')

    assert selectors.resolve("s").mocks == {"m": {}}, "its step fails with mock_surface_missing"


def test_mocks_of_an_imported_suite_serve_its_surfaces(workspace):
    workspace.add("pay", {"suite.star": 'mock.serve("psp")\nmock.serve("all")\n', **MOCKS})
    workspace.add(
        "s",
        {
            "suite.star": 'p = suite.run("p", ref="pay")\nmock.serve("own", after=p)\n'
            'test.run("t", image="a:1", after="own", reset_mocks=[p])\n',
            "dependencies.yaml": "dependencies: {pay: pay}",
            "mock/own/hello.yaml": EXAMPLE,
        },
    )

    resolved = selectors.resolve("s")

    assert resolved.mocks == {
        "p/psp": {"psp": "rest"},
        "p/all": {"psp": "rest", "bank": "grpc"},
        "own": {"own": "rest"},
    }
    (test,) = [node for node in resolved.topology if node["id"] == "t"]
    assert test["resetMocks"] == ["p/psp", "p/all"]


def test_an_imported_suite_with_a_missing_surface_cannot_be_launched(workspace):
    workspace.add("pay", {"suite.star": 'mock.serve("m", surface="gone")\n', **MOCKS})
    workspace.add(
        "s",
        {
            "suite.star": 'suite.run("p", ref="pay")\n',
            "dependencies.yaml": "dependencies: {pay: pay}",
        },
    )

    with pytest.raises(selectors.TopologyInvalid, match=r'"p/m" serves "gone".*known: bank, psp'):
        selectors.resolve("s")


def test_an_operation_that_no_mock_has_is_refused_before_a_run(workspace):
    text = (
        'm = mock.serve("psp")\n'
        'test.run("t", image="a:1", command=["true"], expect_calls=[{"mock": m, '
        '"operation": "refnd", "count": 0}])\n'
    )
    error = workspace.error({"suite.star": text, **MOCKS})

    assert (error["code"], error["line"]) == ("expect_calls_invalid", 2)
    assert error["message"].endswith(
        '"t" expects calls of "refnd", no operation of its mocks; known: pay, refund; '
        "did you mean refund?"
    )
    assert workspace.definition({"suite.star": text.replace("refnd", "refund")})["launchable"]
