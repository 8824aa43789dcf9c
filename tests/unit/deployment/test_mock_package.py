"""What the wheel of `partita-mock` says it needs is what its packages import."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from typing import Any, Final

import grimp
import pytest
from packaging.requirements import Requirement

from kernel.extras import EXTRAS, missing_extra
from tests.support.processes import ROOT

OURS: Final = ("cue", "kernel", "mocks", "partita_mock", "readers", "surfaces")
STARTED: Final = ("partita_mock.__main__", "mocks.standalone.command")
# Imported by name, or by a program that Python runs by its path: no graph of imports has it.
BY_NAME: Final = (
    *("uvloop", "httptools", "websockets", "sniffio", "faker", "psutil", "starlark"),
    "cryptography",
)
# Of parts of `mocks`, `readers` and `kernel` that a control plane runs.
ELSEWHERE: Final = {"redis", "ruamel", "opentelemetry"}
# Several distributions have modules below `google`; protoc is asked in a process of its own.
OF_PROTOS: Final = {"protobuf", "googleapis-common-protos", "grpcio-tools"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    text = (ROOT / "partita_mock" / "pyproject.toml").read_text()
    return dict(tomllib.loads(text)["project"])


def requirements(project: dict[str, Any], *extras: str) -> dict[str, Requirement]:
    """Return what is required, by the names of the distributions."""
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    found = map(Requirement, lines)
    return {each.name.lower(): each for each in found}


def distributions(modules: set[str]) -> set[str]:
    """Return the distributions that modules come from, as their names are written."""
    known = packages_distributions()
    return {re.sub(r"[-_.]+", "-", known[each][0]).lower() for each in modules}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Return the libraries that the packages of the wheel import, by their first names."""
    graph = grimp.build_graph(
        *OURS, include_external_packages=True, exclude_type_checking_imports=True
    )
    libraries = {each for each in graph.modules if graph.is_module_squashed(each)}
    reached = {
        each
        for root in ("partita_mock", "mocks", "surfaces", "readers", "cue", "kernel.http2")
        for each in (root, *graph.find_descendants(root))
    }
    for each in tuple(reached):
        reached |= graph.find_upstream_modules(each)
    known = packages_distributions()
    return {each for each in reached & libraries if each in known}


def test_it_requires_what_it_imports_and_nothing_else(project: dict[str, Any], imported: set[str]):
    needed = distributions((imported | set(BY_NAME)) - ELSEWHERE - {"google", "grpc_tools"})

    assert {"google", "grpc_tools", *ELSEWHERE} <= imported
    assert set(requirements(project, *EXTRAS)) == needed | OF_PROTOS


def test_an_extra_is_known_by_what_is_imported_of_it(project: dict[str, Any]):
    of_extras = {
        extra: set(requirements(project, extra)) - set(requirements(project)) for extra in EXTRAS
    }
    asked = {
        "grpc": {"grpc", "grpc_tools", "grpc_health", "grpc_reflection"},
        "scripts": {"starlark", "psutil"},
        "faker": {"faker"},
        "tls": {"cryptography"},
    }

    assert {each for each in project["optional-dependencies"] if each != "all"} == set(EXTRAS)
    for extra, modules in asked.items():
        assert modules <= set(EXTRAS[extra])
        assert distributions(modules) <= of_extras[extra]
        assert missing_extra(extra) == ""


def test_it_admits_the_versions_that_the_tests_ran_with(project: dict[str, Any]):
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.M))

    refused = {
        name: str(each.specifier)
        for name, each in requirements(project, *EXTRAS).items()
        if not each.specifier.contains(pins[name])
    }

    assert refused == {}


def test_its_libraries_are_among_those_of_partita(project: dict[str, Any]):
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(requirements(project, *EXTRAS)) <= set(requirements(whole))


def test_nothing_of_the_control_plane_is_reached():
    graph = grimp.build_graph(*OURS, "apps", "platform_site", "sync_stack", "worker")
    reached = {name for start in STARTED for name in graph.find_upstream_modules(start)}

    assert {name.partition(".")[0] for name in reached} <= set(OURS)
