"""A new runtime is one file: that of docs/guides/adding-a-runtime.md, dropped into a package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

import worker.runtimes
from apps.platform_settings import api as platform_settings
from apps.platform_settings.domain.backends import runtime_labels
from kernel.registry import import_plugins, plugin_names
from platform_site.settings import env
from tests.support import guides, steps
from worker.domain.runtime import Runtime, RuntimeOptions, runtimes

MODULE = "worker/runtimes/children.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the package `worker.runtimes` with the guide's file."""
    folder = tmp_path / "worker" / "runtimes"
    folder.mkdir(parents=True)
    (folder / "children.py").write_text(guides.file_of("adding-a-runtime.md", MODULE))
    monkeypatch.setattr(worker.runtimes, "__path__", [*worker.runtimes.__path__, str(folder)])
    monkeypatch.setattr(worker, "__path__", [*worker.__path__, str(folder.parent)])
    for registry in (runtimes, runtime_labels):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_paths", dict(registry._paths))
    import_plugins(worker.runtimes.__name__, [str(folder)])
    yield folder
    sys.modules.pop("worker.runtimes.children")


@pytest.fixture
def children(folder: Path, tmp_path: Path) -> Runtime:
    options = RuntimeOptions(state_dir=tmp_path, installation_id=steps.INSTALLATION)
    return runtimes["children"].open(options)


async def test_a_supervisor_runs_steps_on_it(children, stage):
    stage.runtime = children
    async with stage.supervisor():
        job = await stage.add(node={"command": ["echo", "hello"]})
        failing = await stage.add(node_id="bad", node={"command": ["sh", "-c", "exit 3"]})
        endless = await stage.add(node_id="slow", node={"command": ["sleep", "60"]}, timeoutMs=100)
        outcomes = [await stage.store.outcome(each) for each in (job, failing, endless)]

    assert job.texts == ["hello"]
    assert [each.status for each in outcomes] == ["succeeded", "failed", "failed"]
    assert (outcomes[1].exit_code, outcomes[2].reason) == (3, "timeout")
    await children.release(stage.run_id, steps.owner())
    assert not await children.find(steps.owner())


def test_settings_and_backends_know_it(folder, settings, monkeypatch, tmp_path, db):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"
    settings.LOCAL_RUNTIME = "children"
    monkeypatch.setenv("LOCAL_RUNTIME", "children")
    known = plugin_names(worker.runtimes.__path__)
    runtime_labels._paths.clear()
    runtime_labels._entries.clear()
    runtime_labels.register_declared("runtime_labels", [apps.get_app_config("workers")])

    assert env.choice("LOCAL_RUNTIME", "docker", known) == "children"
    assert [each.label for each in platform_settings.backends()] == [
        "Local children (not isolated)"
    ]


def test_without_the_file_nothing_knows_it(monkeypatch):
    monkeypatch.setenv("LOCAL_RUNTIME", "children")

    assert list(runtimes) == ["docker", "kubernetes", "process"]
    with pytest.raises(ImproperlyConfigured, match="expected one of docker, kubernetes, process"):
        env.choice("LOCAL_RUNTIME", "docker", plugin_names(worker.runtimes.__path__))
    with pytest.raises(ImportError):
        importlib.import_module("worker.runtimes.children")
