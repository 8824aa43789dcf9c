"""Modules of a real registry that the lock of a suite pins (reference: control-plane 7.6)."""

from __future__ import annotations

import pytest

from apps.oci import api as oci
from apps.suites import api
from apps.suites.selectors import PackageUnreachable
from tests.support.registry_suites import TestRegistry

USE = 'load("@acme/things", "make")\nmake("t")\n'
MAKE = """load("@partita/runtime", "task")
load("_words.star", "word")

def make(name):
    return task.run(name, image = "a:1", command = [word])
"""
FILES = {"make.star": MAKE.encode(), "_words.star": b'word = "pinned"\n', "module.star": b'"""M"""'}


@pytest.fixture(autouse=True)
def _store(transactional_db) -> None:
    """Threads pull packages: they must see what is stored."""


@pytest.fixture
def registry(workspace, settings, tmp_path) -> TestRegistry:
    registry = TestRegistry()
    registry.configure(settings, tmp_path)
    return registry


def suite(pin: str) -> dict[str, str]:
    return {
        "suite.star": USE,
        "dependencies.lock.yaml": f'locks: {{}}\nmodules:\n  "@acme/things": {pin}\n',
    }


def push(registry: TestRegistry, files=FILES, kind: str = oci.MODULE_TYPE) -> str:
    repository = registry.repository("acme/things")
    pushed = oci.push(f"{repository}:1.0.0", files, artifact_type=kind)
    return f"{repository}@{pushed.digest}"


def test_a_pinned_module_is_pulled_and_kept(registry, workspace, settings, tmp_path):
    pin = push(registry)
    assert workspace.topology(suite(pin))[0]["command"] == ["pinned"]

    away = registry.settings_text(url="http://127.0.0.1:9").replace(registry.host, "127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(away)
    changed = {**suite(pin), "suite.star": USE + "# changed\n"}
    assert workspace.topology(changed)[0]["command"] == ["pinned"]


def test_the_pin_decides_which_content_is_loaded(registry, workspace):
    first = push(registry)
    second = push(registry, FILES | {"_words.star": b'word = "newer"\n'})

    assert workspace.topology(suite(first))[0]["command"] == ["pinned"]
    assert workspace.topology(suite(second))[0]["command"] == ["newer"]


def test_a_pin_wins_over_the_workspace_and_nothing_is_loaded_without_one(
    registry, workspace, settings
):
    pin = push(registry)
    own = settings.MODULES_DIR / "acme" / "things"
    own.mkdir(parents=True)
    (own / "make.star").write_text(MAKE.replace("[word]", '["own"]'))
    (own / "_words.star").write_text("word = 1\n")

    assert workspace.topology(suite(pin))[0]["command"] == ["pinned"]
    assert workspace.topology({**suite(pin), "dependencies.lock.yaml": ""})[0]["command"] == ["own"]


@pytest.mark.parametrize(
    ("files", "kind", "code", "says"),
    [
        (FILES, oci.SUITE_TYPE, "module_not_found", "is a suite, not a module"),
        ({"readme.md": b"x"}, oci.MODULE_TYPE, "package_invalid", "no .star file"),
        (FILES | {"_words.star": b"word = \n"}, oci.MODULE_TYPE, "syntax_error", "_words.star:1"),
    ],
)
def test_a_package_that_is_no_module(files, kind, code, says, registry, workspace):
    if kind == oci.SUITE_TYPE:
        files = {**files, "suite.star": b"x = 1\n"}
    error = workspace.error(suite(push(registry, files, kind)))

    assert (error["code"], error["line"]) == (code, 1)
    assert says in error["message"]


def test_a_package_that_does_not_exist(registry, workspace):
    pin = f"{registry.repository('acme/things')}@sha256:{'0' * 64}"
    error = workspace.error(suite(pin))

    assert (error["code"], error["line"]) == ("module_not_found", 1)


def test_a_registry_that_does_not_answer(registry, workspace, settings):
    away = registry.settings_text(url="http://127.0.0.1:9").replace(registry.host, "127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(away)
    workspace.add("s", suite(f"127.0.0.1:9/{registry.folder}/acme/things@sha256:{'0' * 64}"))

    assert api.get_definition("s")["topologyError"]["code"] == "module_not_found"
    with pytest.raises(PackageUnreachable):
        api.resolve("s")


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        ("things: x", "is not a label"),
        ('"@acme/things": registry.example/acme/things:1', "64 hex digits"),
        (f'"@acme/things": registry.example/other/things@sha256:{"0" * 64}', "ends in acme/things"),
        (f'"@acme/things": registry.example/xacme/things@sha256:{"0" * 64}', "ends in acme/things"),
        ('"@acme/things": [1]', "64 hex digits"),
        ("[1]", "must be a mapping"),
    ],
)
def test_a_lock_that_pins_modules_wrongly(modules, says, workspace):
    text = f"modules: {modules}\n" if modules[0] == "[" else f"modules:\n  {modules}\n"
    error = workspace.error({"suite.star": USE, "dependencies.lock.yaml": text})

    assert (error["code"], error["file"]) == ("package_invalid", "dependencies.lock.yaml")
    assert says in error["message"]
    assert error["line"] in (1, 2)
