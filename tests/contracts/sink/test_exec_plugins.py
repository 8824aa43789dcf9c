"""Kubeconfigs with an exec plug-in: a real program, a server with TLS that checks tokens."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sync_stack.core.sink import Sink, SinkError
from sync_stack.sinks.configmap import ConfigMapOptions
from tests.contracts.sink import worlds
from tests.support import kubernetes_api
from tests.support.kubernetes_api import Api
from tests.support.syncing import Unit
from tests.sync.gateway.certificates import Authority

ABC = {"a": "1", "b": "2"}
API_VERSION = "client.authentication.k8s.io/v1"
PROGRAM = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
number = len(runs.read_text().splitlines()) + 1 if runs.exists() else 1
with runs.open("a") as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = json.loads((here / "status").read_text())
status["token"] = "token-" + str(number)
print(json.dumps({{"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}}))
"""


@dataclass
class Plugin:
    """A kubeconfig whose user is the program beside it, which prints token-1, token-2, …"""

    api: Api
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "config"

    def prints(self, **status: str) -> None:
        (self.folder / "status").write_text(json.dumps(status))

    def runs(self) -> list[Any]:
        runs = self.folder / "runs"
        return [json.loads(line) for line in runs.read_text().splitlines()] if runs.exists() else []

    def unit(self, opened: list[Sink]) -> Unit[Sink]:
        made = ConfigMapOptions(
            namespace="apps", configmap_name="shop", kubeconfig_path=str(self.kubeconfig)
        )
        opened.append(worlds.opened("configmap", made))
        return Unit(opened[-1])


@pytest.fixture
def opened() -> Iterator[list[Sink]]:
    sinks: list[Sink] = []
    yield sinks
    for sink in sinks:
        sink.close()


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    authority = Authority(tmp_path)
    files = authority.pair("api")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.cert, files.key)
    with kubernetes_api.serving(tls) as api:
        api.tokens = {"token-1", "token-2", "token-3"}
        made = Plugin(api=api, folder=tmp_path / "operator")
        made.folder.mkdir(mode=0o700)
        program = made.folder / "get-token"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o700)
        how = {
            "apiVersion": API_VERSION,
            "command": "./get-token",
            "args": ["--cluster", "shop"],
            "env": [{"name": "PROFILE", "value": "deploy"}],
        }
        server = api.server.replace("127.0.0.1", "localhost")
        cluster = {"server": server, "certificate-authority": str(authority.file)}
        made.kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"exec": how}}],
                }
            )
        )
        made.kubeconfig.chmod(0o600)
        made.prints()
        yield made


def test_a_plugin_runs_once_and_sees_no_secret_of_partita(plugin, opened, monkeypatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("DB_PASSWORD", "not-for-plug-ins")

    plugin.unit(opened).sync(ABC)

    (arguments, variables), *others = plugin.runs()
    assert not others
    assert arguments == ["--cluster", "shop"]
    assert (variables["PROFILE"], variables["AWS_REGION"]) == ("deploy", "eu-central-1")
    assert "DB_PASSWORD" not in variables
    assert plugin.api.objects["/api/v1/namespaces/apps/configmaps/shop-production"]["data"] == ABC
    assert {credential for _, _, credential in plugin.api.requests} == {"Bearer token-1"}


def test_a_plugin_runs_again_when_its_token_expires(plugin, opened) -> None:
    plugin.prints(expirationTimestamp="2020-01-01T00:00:00Z")
    unit = plugin.unit(opened)

    unit.sink.read(unit.destination, unit.owner, ())
    plugin.prints(expirationTimestamp="2999-01-01T00:00:00Z")
    unit.sink.read(unit.destination, unit.owner, ())
    unit.sink.read(unit.destination, unit.owner, ())

    credentials = [credential for _, _, credential in plugin.api.requests]
    assert credentials == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]


def test_a_plugin_runs_again_after_the_server_refused_its_token(plugin, opened) -> None:
    unit = plugin.unit(opened)
    plugin.api.tokens = {"token-2"}

    with pytest.raises(SinkError) as refused:
        unit.sink.read(unit.destination, unit.owner, ())
    unit.sink.read(unit.destination, unit.owner, ())

    assert refused.value.code == "sink_auth"
    assert len(plugin.runs()) == 2


@pytest.mark.parametrize("whose", ["file", "folder", "file sink"])
def test_a_plugin_of_a_kubeconfig_that_others_may_write_never_runs(plugin, opened, whose) -> None:
    if whose == "file":
        plugin.kubeconfig.chmod(0o666)
    elif whose == "folder":
        plugin.folder.chmod(0o777)
    else:
        (plugin.folder.parent / ".partita").mkdir()
    unit = plugin.unit(opened)

    with pytest.raises(SinkError) as refused:
        unit.sync(ABC)

    assert refused.value.code == "sink_auth"
    assert "is not run from a kubeconfig" in str(refused.value)
    assert (plugin.runs(), plugin.api.requests) == ([], [])


def test_what_a_failing_plugin_says_is_not_told(plugin, opened) -> None:
    program = plugin.folder / "get-token"
    program.write_text("#!/bin/sh\necho a-secret; echo a-secret >&2; exit 3\n")

    with pytest.raises(SinkError) as refused:
        plugin.unit(opened).sync(ABC)

    assert "the exec plug-in ./get-token ended with code 3: run it as" in str(refused.value)
    assert "a-secret" not in str(refused.value)
    assert not plugin.api.requests
