from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel import ids
from kernel.registry import Registry, UnknownPlugin, plugin_names


def test_new_ids_have_the_form_of_the_reference() -> None:
    assert re.fullmatch(r"run-[0-9a-f]{12}", ids.new_execution_id())
    assert re.fullmatch(r"job_[A-Za-z0-9_-]{22}", ids.new_job_id())
    assert ids.new_uuid().version == 4


@pytest.mark.parametrize("text", ["a", "0", "A.b_c-d", "x" * 128])
def test_identifiers(text: str) -> None:
    assert ids.is_identifier(text)


@pytest.mark.parametrize("text", ["", ".a", "-a", "a/b", "a b", "a\n", "é", "x" * 129])
def test_no_identifiers(text: str) -> None:
    assert not ids.is_identifier(text)


def test_slugs_names_and_shortened_names() -> None:
    assert ids.slug("pay/API v2!") == "pay-api-v2"
    assert ids.humanize("payment-api") == "Payment Api"
    assert ids.shorten("x" * 63) == "x" * 63
    assert len(ids.shorten("x" * 64)) == 63
    assert ids.shorten("x" * 64) != ids.shorten("x" * 65)


def test_a_registry_knows_its_names_and_refuses_a_second_one() -> None:
    runtimes: Registry[str] = Registry("runtime")
    runtimes.register("docker")("D")
    runtimes.register("bare")("B")

    assert (list(runtimes), runtimes["docker"], "nomad" in runtimes) == (
        ["bare", "docker"],
        "D",
        False,
    )
    with pytest.raises(UnknownPlugin, match="unknown runtime 'nomad'; known: bare, docker"):
        runtimes["nomad"]
    with pytest.raises(ValueError, match="registered twice"):
        runtimes.register("docker")("other")


@pytest.fixture
def broken_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str]]:
    """A registry whose one plug-in finds it in this module, registers, and then fails."""
    made: Registry[str] = Registry("sink", package="broken_plugins")
    monkeypatch.setattr(sys.modules[__name__], "registry_of_test", made, raising=False)
    (tmp_path / "broken_plugins").mkdir()
    (tmp_path / "broken_plugins" / "__init__.py").touch()
    (tmp_path / "broken_plugins" / "redis.py").write_text(
        "import tests.unit.kernel.test_ids_and_registry as port\n"
        "port.registry_of_test.register('redis')('R')\n"
        "raise ImportError('no module named hiredis')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.split(".")[0] == "broken_plugins"]:
        del sys.modules[name]


def test_every_look_up_raises_the_error_of_a_plugin_that_registers_and_then_fails(broken_sinks):
    for _ in range(2):
        with pytest.raises(ImportError, match="no module named hiredis"):
            broken_sinks["redis"]


def test_a_plugin_is_a_module_or_a_package_and_no_stray_file(tmp_path):
    """An editor's lock `.#redis.py` or a copy `._redis.py` stops no start."""
    for name in ("__init__.py", "redis.py", ".#redis.py", "._redis.py", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "mongo").mkdir()
    (tmp_path / "mongo" / "__init__.py").touch()
    (tmp_path / "__pycache__").mkdir()
    assert plugin_names([str(tmp_path)]) == ["mongo", "redis"]
