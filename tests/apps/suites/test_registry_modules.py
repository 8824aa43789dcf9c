"""Modules of a real registry that the lock of a suite pins (reference: control-plane 7.6)."""

from __future__ import annotations

import json

import pytest
import yaml
from django.core.management import call_command

from apps.oci import api as oci
from apps.suites import api, selectors
from apps.suites.authoring import locks
from apps.suites.selectors import PackageUnreachable
from apps.suites.services import transfers
from tests.apps.suites.conftest import Workspace
from tests.support.commands import run_command
from tests.support.registry_suites import REGISTRY_ID, TestRegistry

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
    pushed = oci.push(f"{repository}:1.0.0", files, artifact_type=kind, force=True)
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
        selectors.resolve("s")


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


def things(
    registry: TestRegistry, word: str, tag: str = "1.0.0", place: str = "acme/things"
) -> str:
    """Push a module whose node has the command `word`, synchronize, and return its pin."""
    repository = registry.repository(place)
    files = FILES | {"_words.star": f'word = "{word}"\n'.encode()}
    pushed = oci.push(f"{repository}:{tag}", files, artifact_type=oci.MODULE_TYPE)
    oci.sync_registry(REGISTRY_ID)
    return f"{repository}@{pushed.digest}"


def locked(workspace: Workspace) -> str:
    return (workspace.root / "s" / "dependencies.lock.yaml").read_text()


def stored(pin: str) -> oci.Package:
    package = oci.stored_package(pin.partition("@")[2])
    assert package is not None
    return package


def typed(capsys, *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        call_command("suite", *words)
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.slow
def test_a_lock_pins_what_is_loaded_and_renews_it(registry, workspace, capsys):
    first = things(registry, "one")
    workspace.add("s", USE)
    assert typed(capsys, "lock", "--check")[0] == 1
    assert not (workspace.root / "s" / "dependencies.lock.yaml").exists()

    code, said = typed(capsys, "lock")
    assert (code, "added    @acme/things  sha256:" in said) == (0, True)
    assert f"of {registry.repository('acme/things')}" in said
    assert yaml.safe_load(locked(workspace))["modules"] == {"@acme/things": first}
    assert selectors.resolve("s").topology[0]["command"] == ["one"]
    assert typed(capsys, "lock", "--check", "s")[0] == 0

    second = things(registry, "two", tag="1.1.0")
    assert selectors.resolve("s").topology[0]["command"] == ["one"]
    code, said = typed(capsys, "lock", "--check", "-o", "yaml")
    (shown,) = yaml.safe_load(said)["suites"]
    assert (code, shown["current"]) == (1, False)
    assert shown["modules"] == [
        {
            "label": "@acme/things",
            "ref": registry.repository("acme/things"),
            "state": "changed",
            "before": first.partition("@")[2],
            "after": second.partition("@")[2],
        }
    ]
    assert [each["id"] for each in shown["difference"]["changed"]] == ["t"]

    assert typed(capsys, "lock")[0] == 0
    assert selectors.resolve("s").topology[0]["command"] == ["two"]
    assert [each.state for each in locks.lock_suite("s", write=False).modules] == ["same"]


def test_a_pin_that_no_load_uses_is_dropped_with_a_word(registry, workspace, capsys):
    workspace.add("s", suite(things(registry, "one")))
    workspace.add("s", {"suite.star": 'task.run("t", image = "a:1")\n# "@acme/things"\n'})

    code, said = typed(capsys, "lock")

    assert code == 0
    assert "removed  @acme/things" in said
    assert "suite.star does not load it" in said
    assert "modules" not in yaml.safe_load(locked(workspace))


def test_a_text_that_does_not_parse_drops_no_pin(registry, workspace):
    pin = things(registry, "one")
    workspace.add("s", {**suite(pin), "suite.star": USE + "def (:\n"})

    assert [each.state for each in locks.lock_suite("s", write=False).modules] == ["same"]


@pytest.mark.slow
def test_a_pin_stays_with_its_repository(registry, workspace):
    other = things(registry, "other", place="zzz/acme/things")
    things(registry, "first", place="aaa/acme/things")
    things(registry, "no", place="aaa/xacme/things")
    workspace.add("s", suite(other))
    workspace.add("new", USE)

    (kept,) = locks.lock_suite("s", write=False).modules
    assert (kept.state, kept.after) == ("same", other.partition("@")[2])
    (found,) = locks.lock_suite("new", write=False).modules
    assert found.ref == registry.repository("aaa/acme/things")

    things(registry, "newer", tag="2.0.0", place="zzz/acme/things")
    (renewed,) = locks.lock_suite("s", write=False).modules
    assert (renewed.state, renewed.ref) == ("changed", registry.repository("zzz/acme/things"))


def test_suites_and_moving_tags_are_not_pinned_as_modules(registry, workspace):
    push(registry, {"suite.star": b"x = 1\n"}, oci.SUITE_TYPE)
    things(registry, "latest", tag="latest", place="a/acme/things")
    workspace.add("s", USE)

    with pytest.raises(selectors.TopologyInvalid, match="no registry has one") as error:
        locks.lock_suite("s", write=True)

    said = error.value.problem
    assert said.code == "module_not_found"
    assert "partita suite push @acme/things HOST/acme/things:1.0.0" in said.message
    assert "settings registries sync" in said.message
    assert not (workspace.root / "s" / "dependencies.lock.yaml").exists()


def test_a_module_of_the_workspace_needs_no_pin(registry, workspace, settings, capsys):
    pin = things(registry, "pinned")
    write_module(settings)
    workspace.add("s", USE)

    assert locks.lock_suite("s", write=False).modules == ()
    assert "no suite imports another one or loads" in typed(capsys, "lock")[1]
    workspace.add("s", suite(pin))
    assert [each.state for each in locks.lock_suite("s", write=False).modules] == ["same"]


def test_a_lock_of_a_module_needs_its_registry(registry, workspace, settings):
    away = registry.settings_text(url="http://127.0.0.1:9").replace(registry.host, "127.0.0.1:9")
    settings.PLATFORM_SETTINGS_FILE.write_text(away)
    workspace.add("s", suite(f"127.0.0.1:9/{registry.folder}/acme/things@sha256:{'0' * 64}"))

    with pytest.raises(PackageUnreachable):
        locks.lock_suite("s", write=True)


def write_module(settings, **texts: str) -> None:
    own = settings.MODULES_DIR / "acme" / "things"
    own.mkdir(parents=True, exist_ok=True)
    for path, content in FILES.items():
        (own / path).write_bytes(content)
    for name, text in texts.items():
        (own / f"{name}.star").write_text(text)


def test_a_module_is_pushed_and_pinned_elsewhere(registry, workspace, settings, capsys):
    write_module(settings)
    reference = f"{registry.repository('acme/things')}:1.0.0"

    code, said = typed(capsys, "push", "@acme/things", reference, "-o", "json")
    pushed = json.loads(said)
    assert (code, pushed["module"], pushed["reference"]) == (0, "@acme/things", reference)

    settings.MODULES_DIR = settings.MODULES_DIR.with_name("elsewhere")
    oci.sync_registry(REGISTRY_ID)
    package = stored(f"@{pushed['digest']}")
    assert (package.artifact_type, dict(package.files)) == (oci.MODULE_TYPE, FILES)
    workspace.add("s", USE)
    assert typed(capsys, "lock", "s")[0] == 0
    assert pushed["digest"] in locked(workspace)
    assert selectors.resolve("s").topology[0]["command"] == ["pinned"]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"_words": "word = \n"}, "_words.star:1"),
        ({"more": "make = 1\n"}, "more.star"),
        ({"more": 'fail("never")\n'}, "never"),
        ({"more": 'load("@partita/runtime", "tsk")\n'}, "no symbol `tsk`"),
        ({"more": 'load("_words.star", "wrd")\n'}, "no symbol `wrd`"),
    ],
)
def test_a_broken_module_is_not_pushed(texts, says, registry, workspace, settings):
    write_module(settings, **texts)

    with pytest.raises(oci.PackageRefused) as error:
        transfers.push_module("@acme/things", f"{registry.repository('acme/things')}:1")

    assert says in error.value.detail
    assert not oci.sync_registry(REGISTRY_ID).packages


NO_MODULES = [
    ("@acme/things", "acme/other:1", 1, "must end in acme/things"),
    ("@acme/things", "acme/things", 1, "name a tag"),
    ("@acme/nothing", "acme/nothing:1", 3, "there is no module @acme/nothing"),
    ("@../things", "acme/things:1", 3, "is not @scope/name"),
    ("@partita/redis", "partita/redis:1", 3, "is not @scope/name"),
]


def test_what_is_no_module_says_so(registry, workspace, settings, capsys):
    write_module(settings)
    for label, place, status, says in NO_MODULES:
        assert run_command("suite", "push", label, registry.repository(place)) == status
        assert says in capsys.readouterr().err
    assert not oci.sync_registry(REGISTRY_ID).packages


def test_whoever_pushes_a_suite_is_warned_of_its_modules(registry, workspace, settings):
    write_module(settings)
    workspace.add("s", USE)

    assert transfers.push_warnings("s", "registry.example/s:1") == [
        "@acme/things is a module of this workspace; others need a module of that name"
    ]
