"""Backends that run child processes say so."""

from __future__ import annotations

import pytest

from apps.platform_settings import api


@pytest.fixture(autouse=True)
def _without_file(settings, tmp_path, db):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"


def test_a_local_backend_on_processes_is_marked_as_not_isolated(settings):
    settings.LOCAL_RUNTIME = "process"

    assert [each.label for each in api.backends()] == ["Local processes (not isolated)"]
    assert api.select_backend("", lambda _: "").label == "Local processes (not isolated)"


def test_a_remote_backend_keeps_its_label(settings):
    settings.LOCAL_RUNTIME = "process"
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "agents: [{agentId: edge, name: Edge, type: remote-agent}]"
    )

    assert [each.label for each in api.backends()] == ["Edge"]
