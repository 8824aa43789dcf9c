"""Production without TLS or secrets: no process starts, and each says what to set."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from kernel import clock
from platform_site.settings.store import databases
from platform_site.settings.sync_files import mongo_of_bundle
from sync_stack.configuration.startup import StartRefused
from sync_stack.orchestrator.server.startup import refuse_unsafe
from sync_stack.rpc.first_start import prepare
from sync_stack.rpc.tls import TlsFiles
from tests.support import compose
from tests.support.processes import ROOT
from tests.sync.gateway.certificates import Authority

pytestmark = pytest.mark.slow
KEY = "k" * 40
PASSWORD = "$(word): @/ \"'"


@dataclass(frozen=True, kw_only=True)
class Start:
    """A command, what it lacks, and the words of each line that it must end with."""

    command: Sequence[str]
    variables: Mapping[str, str]
    said: Sequence[str]


class Starts:
    """Many at once, since each takes seconds to get where it refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = (ROOT / "config.cue").read_text()
        secret = folder / "webhook-secret"
        secret.write_text("a-webhook-secret")
        self.bundle = folder / "config.cue"
        self.bundle.write_text(text.replace("/state/webhook-secret", str(secret)))

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "APP_ENV": "production",
            "CONFIG_PATH": str(self.bundle),
            "DB_DRIVER": "sqlite",
            "SQLITE_PATH": str(self.folder / "store.sqlite3"),
            "GIT_CACHE_DIR": str(self.folder / "git"),
            "MONGO_USER": "partita",
            "MONGO_PASSWORD": PASSWORD,
            **variables,
        }

    def begin(self, start: Start) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *start.command], env=self.environment(start.variables), cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


def refused(starts: Starts, every: Sequence[Start]) -> None:
    """Each exits with 78 and exactly its sentences."""
    running = [starts.begin(start) for start in every]
    for start, process in zip(every, running, strict=True):
        _, told = process.communicate(timeout=120)
        assert process.returncode == 78, told
        lines = told.splitlines()
        assert len(lines) == len(start.said), told
        for words, line in zip(start.said, lines, strict=True):
            assert words in line
        assert "set " in told or "replace it" in told
        assert PASSWORD not in told


GATEWAY = ("manage.py", "run_gateway")
ORCHESTRATOR = ("manage.py", "run_orchestrator")
WATCHER = ("manage.py", "run_watcher")
WORKER = ("-m", "celery", "-A", "platform_site", "worker", "-Q", "sync")
NO_KEY = "SECRET_KEY: required with APP_ENV=production: set it to at least 32 bytes"
NO_GRPC = "GRPC_TLS_CERT and GRPC_TLS_KEY: required with APP_ENV=production: set them to"


def test_every_process_names_what_production_lacks(starts):
    """Sync invariant 26."""
    empty = starts.folder / "empty"
    empty.mkdir()
    refused(
        starts,
        [
            Start(
                command=GATEWAY,
                variables={"TLS_AUTO_DIR": str(empty)},
                said=(
                    "GATEWAY_TLS_CERT and GATEWAY_TLS_KEY: required with APP_ENV=production",
                    f"run_orchestrator fills for this process: {empty} holds none",
                ),
            ),
            Start(command=ORCHESTRATOR, variables={}, said=(NO_KEY,)),
            Start(command=WATCHER, variables={}, said=(NO_KEY,)),
            Start(command=WORKER, variables={}, said=(NO_KEY,)),
        ],
    )
    refused(
        starts,
        [
            Start(
                command=ORCHESTRATOR,
                variables={"SECRET_KEY": KEY},
                said=(
                    "GRPC_TLS_CERT, GRPC_TLS_KEY and GRPC_TLS_CA: required with APP_ENV=production",
                    "TASK_API_KEYS or TASK_API_KEY_FILE: required with APP_ENV=production: set one",
                ),
            ),
            Start(command=WATCHER, variables={"SECRET_KEY": KEY}, said=(NO_GRPC,)),
        ],
    )


def orchestrators_words(settings: Any, files: TlsFiles) -> str:
    settings.SYNC_APP_ENV = "production"
    settings.SYNC_TASK_API_KEYS = ("a-task-api-key",)
    settings.SYNC_GRPC_TLS_CERT, settings.SYNC_GRPC_TLS_KEY = str(files.cert), str(files.key)
    settings.SYNC_GRPC_TLS_CA = str(files.ca) if files.ca else ""
    with pytest.raises(StartRefused) as refusal:
        refuse_unsafe()
    assert refusal.value.exit_code == 78
    (line,) = refusal.value.lines
    return line


def test_an_orchestrator_names_certificates_that_cannot_serve(settings, tmp_path):
    """Sync invariant 26."""
    authority = Authority(tmp_path)
    good, late = authority.pair("server"), authority.pair("late", days=-1)

    said = orchestrators_words(settings, late)
    assert f"GRPC_TLS_CERT: {late.cert} expired on " in said
    assert said.endswith("replace it and its key")
    said = orchestrators_words(settings, replace(good, ca=None))
    assert "GRPC_TLS_CA is required: it says whose client certificates count" in said
    said = orchestrators_words(settings, replace(good, key=late.key))
    assert "not usable for TLS" in said
    said = orchestrators_words(settings, replace(good, cert=tmp_path / "none.crt"))
    assert "none.crt: No such file" in said


def as_the_settings_have_it(starts: Starts, variables: Mapping[str, str]) -> Any:
    """The store and the SECRET_KEY of a process of the sync stack."""
    program = (
        "import json, sys; sys.argv = ['manage.py', 'run_watcher'];"
        "from platform_site.settings import sync as s;"
        "print(json.dumps([s.DATABASES['default'], s.SECRET_KEY]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], env=starts.environment(variables), cwd=ROOT,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return json.loads(told.stdout)


def test_the_store_of_the_compose_file_is_the_server_of_the_bundle(starts):
    state = starts.folder / "state"
    prepare(state, clock.now())
    watcher = compose.services({"MONGO_ROOT_PASSWORD": PASSWORD})["watcher"]
    here = {"CONFIG_PATH": str(starts.bundle), "TLS_AUTO_DIR": str(state / "watcher")}
    given = {name: str(text) for name, text in watcher["environment"].items()} | here
    store, key = as_the_settings_have_it(starts, given)
    assert store["ENGINE"] == "platform_site.mongodb"
    assert (store["HOST"], store["NAME"]) == ("mongodb://mongo:27017", "partita")
    assert (store["USER"], store["PASSWORD"]) == ("partita", PASSWORD)
    assert key == (state / "secret-key").read_text().strip()


def test_another_store_is_taken_with_its_own_credentials(monkeypatch, tmp_path):
    uri = "mongodb://their:pass@elsewhere:1,other:2/?replicaSet=r"
    monkeypatch.setenv("MONGO_URI", uri)
    monkeypatch.setenv("MONGO_USER", "partita")
    monkeypatch.setenv("MONGO_PASSWORD", PASSWORD)
    store = databases("mongo", tmp_path)["default"]
    assert (store["HOST"], store["USER"], store["PASSWORD"]) == (uri, "", "")
    monkeypatch.setenv("MONGO_URI", "mongodb://elsewhere/?x=a@b")
    store = databases("mongo", tmp_path)["default"]
    assert (store["USER"], store["PASSWORD"]) == ("partita", PASSWORD)


def test_the_uri_of_the_store_may_stand_in_a_file(monkeypatch, tmp_path):
    file = tmp_path / "uri"
    file.write_text("mongodb://their:pass@elsewhere\n")
    monkeypatch.delenv("MONGO_URI", raising=False)
    monkeypatch.setenv("MONGO_URI_FILE", str(file))

    assert databases("mongo", tmp_path)["default"]["HOST"] == "mongodb://their:pass@elsewhere"


@pytest.mark.parametrize("uri", ["bundle", "their:pass@elsewhere", "http://their:pass@elsewhere"])
def test_what_is_no_address_of_mongodb_is_refused_without_being_shown(uri, monkeypatch, tmp_path):
    monkeypatch.setenv("MONGO_URI", uri)

    with pytest.raises(ImproperlyConfigured, match="MONGO_URI: expected mongodb://") as refusal:
        databases("mongo", tmp_path)
    assert "pass" not in str(refusal.value)


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        ('{env: "MONGO_PASSWORD"}', '{env: "NOT_SET"}', "variable NOT_SET is not set"),
        ("platforms:", "platfroms:", 'did you mean "platforms"'),
        ("mongo: {endpoint:", "mongo: {tag: 7, endpoint:", "[wrong_type]"),
    ],
)
def test_a_bundle_that_gives_no_store_is_told(there, here, said, starts, monkeypatch):
    monkeypatch.setenv("CONFIG_PATH", str(starts.bundle))
    monkeypatch.setenv("MONGO_USER", "partita")
    monkeypatch.setenv("MONGO_PASSWORD", PASSWORD)
    assert mongo_of_bundle("production")["HOST"] == "mongodb://mongo:27017"
    starts.bundle.write_text(starts.bundle.read_text().replace(there, here))
    with pytest.raises(ImproperlyConfigured) as refusal:
        mongo_of_bundle("production")
    assert said in str(refusal.value)


def test_a_bundle_without_mongo_is_told_to_name_the_store(tmp_path, monkeypatch):
    bundle = tmp_path / "config.json"
    bundle.write_text(json.dumps({"bundle": FILES_ONLY}))
    monkeypatch.setenv("CONFIG_PATH", str(bundle))
    with pytest.raises(ImproperlyConfigured, match="no mongo datasource; set MONGO_URI"):
        mongo_of_bundle("development")


FILES_ONLY = {
    "platforms": [{"github": {"secret": "a-secret"}}],
    "datasources": [{"file": {"root": "/srv/files"}}],
    "rules": [
        {
            "platform": "github",
            "datasource": "file",
            "repositories": ["a/b"],
            "file_name": "a.yaml",
            "default_env": "production",
        }
    ],
}
