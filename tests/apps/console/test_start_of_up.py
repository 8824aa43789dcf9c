"""What `up` decides before it serves."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from asgiref.sync import async_to_sync

from apps.console import conf
from apps.console.embedded import demo as demos
from apps.console.embedded.server import MocksAlone
from apps.console.embedded.up import Up
from apps.workers import api as workers
from readers.project_file import ProjectFile
from tests.support.processes import ROOT
from worker.host import container_bridge


def interface(address: str, family: int = socket.AF_INET) -> SimpleNamespace:
    return SimpleNamespace(family=family, address=address)


def test_containers_reach_the_engines_bridge_and_no_other_network(monkeypatch):
    found = {
        "lo": [interface("127.0.0.1")],
        "br-office": [interface("192.0.2.7")],
        "docker0": [interface("fe80::1", socket.AF_INET6), interface("172.17.0.1")],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)

    assert container_bridge() == "172.17.0.1"


def test_without_an_engine_there_is_no_bridge(monkeypatch):
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"br-office": [interface("192.0.2.7")]})

    assert container_bridge() == ""


@pytest.mark.parametrize(
    ("data", "suites", "shown"),
    [
        ("var", "examples/oci-suites", "./partita"),
        ("var", "our suites", "SUITES_DIR='our suites' ./partita"),
        ("/srv/partita", "/srv/suites", "DATA_DIR=/srv/partita SUITES_DIR=/srv/suites ./partita"),
    ],
)
def test_the_next_command_names_the_data_and_suites_that_up_was_given(
    monkeypatch, settings, data: str, suites: str, shown: str
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "/usr/bin")
    settings.DATA_DIR, settings.SUITES_DIR = ROOT / data, ROOT / suites

    assert conf.command_line() == shown


@pytest.mark.parametrize(
    ("data", "suites", "shown"),
    [
        ("shop/var", "shop/suites", "./partita"),
        ("var", "shop/suites", "DATA_DIR=var ./partita"),
        ("shop/var", "other", "SUITES_DIR=other ./partita"),
    ],
)
def test_the_next_command_leaves_out_what_partita_toml_says(
    monkeypatch, settings, data: str, suites: str, shown: str
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "/usr/bin")
    folder = ROOT / "shop"
    settings.PROJECT = ProjectFile(
        path=folder / "partita.toml", name="shop", suites=folder / "suites"
    )
    settings.DATA_DIR, settings.SUITES_DIR = ROOT / data, ROOT / suites

    assert conf.command_line() == shown


@pytest.mark.parametrize(("on_the_path", "shown"), [(True, "partita"), (False, "bin/partita")])
def test_the_next_command_of_an_installed_partita_is_the_program_that_pip_made(
    monkeypatch, settings, tmp_path: Path, on_the_path: bool, shown: str
):
    program = tmp_path / "bin" / "partita"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(program.parent) if on_the_path else "/usr/bin")
    monkeypatch.setattr(conf, "EXAMPLES", tmp_path / "examples")
    settings.BASE_DIR, settings.DATA_DIR = tmp_path, tmp_path / "var"
    settings.SUITES_DIR = tmp_path / "examples" / "oci-suites"

    assert conf.command_line() == shown
    assert conf.start_command() == f"{shown} up"


def test_the_next_command_in_an_image_is_what_path_leads_to(monkeypatch, settings, tmp_path: Path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "partita").touch(mode=0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "partita").symlink_to(tmp_path / "app" / "partita")
    monkeypatch.chdir(tmp_path / "app")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    settings.BASE_DIR, settings.DATA_DIR = tmp_path / "app", tmp_path / "app" / "var"
    settings.SUITES_DIR = conf.EXAMPLES / "oci-suites"

    assert conf.command_line() == "partita"
    assert conf.start_command() == "partita up"


@pytest.mark.parametrize("demo", [True, False])
def test_the_images_of_the_examples_are_there_with_and_without_a_demo(monkeypatch, settings, demo):
    wanted: list[str] = []
    settings.UP_DEMO = demo
    monkeypatch.setattr(workers, "choose_local_runtime", lambda: ("docker", ""))
    monkeypatch.setattr(demos, "ensure_images", lambda names, _builder, _say: wanted.extend(names))

    assert Up()._choose_runtime() == "docker"

    assert {"python:3.12-alpine", "redis:7-alpine"} <= set(wanted)


async def reached(host: str, path: str, kind: str = "http") -> tuple[bool, list[dict[str, Any]]]:
    """Whether the application was asked, and what was sent without it."""
    asked: list[str] = []
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        asked.append(scope["type"])

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "server": (host, 8090)}
    if kind == "lifespan":
        scope = {"type": kind}
    await MocksAlone(application, "172.17.0.1")(scope, None, send)
    return bool(asked), sent


@pytest.mark.parametrize(
    ("host", "path", "answers"),
    [
        ("127.0.0.1", "/api/v1/auth/sign-in", True),
        ("172.17.0.1", "/mocks/rest/shop@run-x/psp/pay", True),
        ("172.17.0.1", "/mocks", False),
        ("172.17.0.1", "/", False),
        ("172.17.0.1", "/api/v1/auth/sign-in", False),
        ("172.17.0.1", "/api/v1/mocks/state", False),
        ("172.17.0.1", "/internal/mock-data/shop/psp/pay", False),
        ("172.17.0.1", "/static/mocks/", False),
    ],
)
def test_containers_reach_mocks_and_nothing_else(host, path, answers):
    for kind in ("http", "websocket"):
        asked, sent = async_to_sync(reached)(host, path, kind)
        assert asked is answers
        assert [message.get("status", message.get("code")) for message in sent[:1]] == (
            [] if answers else [404 if kind == "http" else 4404]
        )


def test_the_life_of_the_server_goes_on_behind_it():
    assert async_to_sync(reached)("", "", "lifespan") == (True, [])
