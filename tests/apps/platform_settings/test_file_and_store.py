"""The store leads: when the file is imported, how it is written (reference: control-plane 4)."""

from __future__ import annotations

import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections

from apps.accounts.api import operator
from apps.health.api import probes
from apps.platform_settings.api import (
    backends,
    get_registry,
    registries,
    replace_settings,
    settings_document,
)
from apps.platform_settings.domain.wire import node_of, wire_of
from apps.platform_settings.lifespan import SettingsPart
from apps.platform_settings.models import PlatformSettings, SettingsChange
from apps.platform_settings.services import settings_file
from apps.platform_settings.services.effective import mode
from apps.platform_settings.services.file_writer import write_file
from kernel.mirrored_file import MirroredFile
from tests.apps.platform_settings.documents import admin_client, document, put

TEXT = """\
# Where our suites run.
mode: hybrid   # both
agents:
  - {agentId: edge, name: Edge, type: remote-agent}
registries:
  - registryId: zot
    name: Zot
    provider: Zot
    registryUrl: http://localhost:5000
    secret: in-the-clear      # ours
  - registryId: hub
    name: Hub
    provider: Harbor
    registryUrl: https://hub.example
    secret: "${PARTITA_CONFIG_HUB}"
"""


@pytest.fixture(autouse=True)
def file(settings: Any, tmp_path: Path, transactional_db: None) -> Path:
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.CONFIG_VARIABLES = {"PARTITA_CONFIG_HUB": "from-outside"}
    path: Path = settings.PLATFORM_SETTINGS_FILE
    return path


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make this process one that has just started."""

    def start() -> None:
        monkeypatch.setattr(
            "apps.platform_settings.services.effective.settings_file", settings_file.SettingsFile()
        )

    return start


def change(**more: Any) -> None:
    admin_client()
    body = settings_document(operator())
    replace_settings(operator(), {**body, **more}, origin="command")


def in_sync() -> bool:
    return bool(settings_document(operator())["fileInSync"])


def test_the_first_start_stores_the_file(file: Path) -> None:
    file.write_text(TEXT)

    async_to_sync(SettingsPart().start)()

    assert PlatformSettings.objects.get().document["mode"] == "hybrid"
    assert SettingsChange.objects.get().origin == "file"


def test_the_first_start_without_a_file_stores_the_built_in_backend() -> None:
    async_to_sync(SettingsPart().start)()
    async_to_sync(SettingsPart().start)()

    row = PlatformSettings.objects.get()
    assert [agent["agentId"] for agent in row.document["agents"]] == ["local-docker"]


def test_what_was_imported_or_written_is_not_imported_again(file: Path, fresh: Any) -> None:
    """An old copy on a replica undoes nothing."""
    file.write_text(TEXT)
    assert mode() == "hybrid"
    change(mode="remote")
    written = file.read_text()
    file.write_text(TEXT)
    fresh()

    assert mode() == "remote"
    assert not in_sync()
    file.write_text(written)
    change(mode="local")
    file.write_text(written)
    fresh()
    assert mode() == "local"


def test_a_file_with_new_content_is_imported(file: Path, fresh: Any) -> None:
    file.write_text(TEXT)
    change(mode="remote")
    file.write_text(TEXT.replace("name: Edge", "name: Edge of the world"))
    fresh()

    assert mode() == "hybrid"
    assert [each.label for each in backends()] == ["Edge of the world"]


def test_an_invalid_file_changes_nothing_and_readiness_names_its_line(
    file: Path, fresh: Any
) -> None:
    """Invariant 34."""
    file.write_text(TEXT)
    assert mode() == "hybrid"
    file.write_text(TEXT.replace("mode: hybrid", "mode: cloud"))
    fresh()

    assert mode() == "hybrid"
    state = probes["platform-settings"].check()
    assert not state.ready
    assert "configuration.yaml:2:7" in state.detail
    before = file.read_bytes()
    change(mode="remote")
    assert file.read_bytes() == before  # somebody is in the middle of editing it


def test_a_mask_in_the_file_is_not_taken_for_a_secret(file: Path) -> None:
    """Invariant 20: `settings show` writes it."""
    file.write_text(TEXT)
    assert get_registry("zot").secret == "in-the-clear"

    file.write_text(TEXT.replace("in-the-clear", '"********"'))

    assert get_registry("zot").secret == "in-the-clear"
    result = probes["platform-settings"].check()
    assert not result.ready
    assert "configuration.yaml:10:13: secret is a mask" in result.detail


def test_a_change_rewrites_the_file_and_keeps_what_people_wrote(file: Path) -> None:
    """Invariant 35."""
    file.write_text(TEXT)
    assert mode() == "hybrid"

    change(mode="remote")

    text = file.read_text()
    assert text == TEXT.replace("mode: hybrid", "mode: remote")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert in_sync()


def test_a_new_secret_is_written_encrypted_and_read_back(file: Path, fresh: Any) -> None:
    """Invariants 19 and 35."""
    file.write_text(TEXT)
    assert [each.secret for each in registries()] == ["in-the-clear", "from-outside"]
    admin_client()
    body = settings_document(operator())
    body["registries"][0]["secret"] = "another-word"
    replace_settings(operator(), body)
    text = file.read_text()

    assert "another-word" not in text
    assert "secret: encrypted:" in text
    assert '"${PARTITA_CONFIG_HUB}"' in text
    assert "# ours" in text
    PlatformSettings.objects.all().delete()  # another store, with the same keys
    fresh()
    assert get_registry("zot").secret == "another-word"
    assert get_registry("hub").secret == "from-outside"
    assert in_sync()


def test_no_secret_of_a_file_is_stored_in_the_clear(file: Path) -> None:
    """Invariant 19."""
    file.write_text(TEXT)
    assert len(registries()) == 2
    rows = [*PlatformSettings.objects.values(), *SettingsChange.objects.values()]

    assert "in-the-clear" not in str(rows)
    assert "from-outside" not in str(rows)


def test_without_a_file_none_is_made(file: Path) -> None:
    change(mode="remote")

    assert not file.exists()
    assert in_sync()


def test_a_file_that_cannot_be_written_is_left_and_said_to_differ(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(TEXT)
    assert mode() == "hybrid"
    monkeypatch.setattr(Path, "replace", refuse)

    change(mode="remote")

    assert (mode(), file.read_text()) == ("remote", TEXT)
    assert not in_sync()
    assert "was not rewritten" in caplog.text


def refuse(*_args: Any) -> None:
    raise PermissionError(13, "Permission denied")


def test_anchors_that_cannot_hold_the_change_leave_the_file(file: Path) -> None:
    file.write_text(
        "agents:\n"
        "  - &base {agentId: a, name: A, type: remote-agent, routingTags: &tags [x]}\n"
        "  - {agentId: b, name: B, type: remote-agent, routingTags: *tags}\n"
    )
    text = file.read_text()
    admin_client()
    body = settings_document(operator())
    body["agents"][0]["routingTags"] = ["y"]

    replace_settings(operator(), body)

    assert backends()[0].routing_tags == ("y",)
    assert file.read_text() == text or in_sync()


@pytest.mark.store
def test_of_two_administrators_at_once_one_gets_412(file: Path) -> None:
    """Invariant 31: the other one's change stays."""
    client = admin_client()
    tag = put(client, document())["ETag"]
    for attempt in range(5):
        barrier = Barrier(2)
        answers: dict[str, Any] = {}

        def save(
            name: str, tag: str = tag, barrier: Barrier = barrier, answers: Any = answers
        ) -> None:
            body = document(description=name)
            barrier.wait()
            answers[name] = put(admin_client(), body, **{"If-Match": tag})
            connections.close_all()

        names = [f"first {attempt}", f"second {attempt}"]
        threads = [Thread(target=save, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(each.status_code for each in answers.values()) == [200, 412]
        (winner,) = [name for name in names if answers[name].status_code == 200]
        assert settings_document(operator())["description"] == winner
        tag = answers[winner]["ETag"]


WRITER = """
import time
import django
django.setup()
from apps.platform_settings.models import PlatformSettings
from apps.platform_settings.services.file_writer import write_file
number = 0
while True:
    number += 1
    row = PlatformSettings.objects.get()
    document = {**row.document, "description": f"version {number}-{time.time()} " + "x" * 20_000}
    PlatformSettings.objects.update(document=document)
    write_file()
    if number == 1:
        print("ready", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the writer opens the file of SQLite")
def test_kill_9_in_the_middle_of_a_save_leaves_the_old_file_or_the_new_one(
    file: Path, settings: Any, fresh: Any
) -> None:
    """Invariant 35."""
    file.write_text(TEXT)
    assert mode() == "hybrid"
    environment = {
        "PATH": "/usr/bin:/bin",
        "DJANGO_SETTINGS_MODULE": "platform_site.settings.local",
        "DB_DRIVER": "sqlite",
        "SQLITE_PATH": str(connection.settings_dict["NAME"]),
        "JWT_SECRET": settings.JWT_SECRET,
        "PLATFORM_SETTINGS_FILE": str(file),
        "PARTITA_CONFIG_HUB": "from-outside",
    }
    seen = set()
    for _kill in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0.0, 0.3))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        text = file.read_text()
        found = settings_file.wire_of_file(MirroredFile(file, 2**20), text.encode())
        seen.add(found["description"].partition(" x")[0])
        assert found["description"] == "" or found["description"].endswith("x" * 20_000)
        assert "# ours" in text
        fresh()
        assert mode() == "hybrid"  # and the next start takes it
    assert len(seen) > 1
    admin_client()
    write_file()
    assert in_sync()


def test_the_wire_form_of_nothing_has_every_key() -> None:
    wire = wire_of(node_of({}))

    assert sorted(wire) == [
        "agents", "ciTrust", "description", "mode", "notifications", "registries", "secrets",
        "workspaces",
    ]  # fmt: skip
