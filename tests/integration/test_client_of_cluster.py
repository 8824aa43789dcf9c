"""`partita` as it is typed, against the processes of an installation: PostgreSQL, Redis, TLS."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.suites import make_suites
from tests.support.cluster import ADMIN, Cluster
from tests.support.device_logins import DeviceLogin, sign_in
from tests.support.fake_partita import Relay, serve_proxy
from tests.support.parts import need
from tests.support.processes import until
from tests.support.servers import free_port, listens
from tests.support.typed import (
    STEADY_LINES,
    Typed,
    numbers_of,
    watch_through,
    write_client_suites,
)
from tests.sync.gateway.certificates import Authority

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow]
HOST = "partita.test"  # a name that only the proxy knows
ENDED = re.compile(r"✓ Chatty: Healthy after 00:\d\d  2 steps healthy")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need("TEST_REDIS_ADDR", "Redis")
    postgres = need("TEST_POSTGRES_DSN", "PostgreSQL")
    folder = tmp_path_factory.mktemp("client")
    suites = make_suites(folder / "suites")
    write_client_suites(suites)
    with Cluster(
        folder / "cluster",
        postgres=postgres,
        environment={"LOCAL_RUNTIME": "process"},
        suites=[suites / name for name in ("chatty", "steady", "failing")],
    ) as cluster:
        yield cluster


@pytest.fixture
def token(cluster: Cluster) -> str:
    """An API token as the page Account makes it."""
    body = {"name": "laptop", "scope": "run"}
    return str(cluster.client.post("/auth/tokens", json=body).json()["token"])


@pytest.fixture
def typed(cluster: Cluster, tmp_path: Path, token: str) -> Typed:
    """Somebody who has signed in by a token."""
    typed = Typed(tmp_path, PARTITA_KEYRING="off")
    typed.run("login", cluster.url, "--token-stdin", text=f"{token}\n")
    return typed


def test_a_run_is_launched_watched_and_listed(cluster: Cluster, typed: Typed):
    assert typed.json("whoami")["user"]["email"] == ADMIN["email"]

    out = typed.run("run", "launch", "chatty", "--watch")

    run_id = out.split()[0]
    assert numbers_of(out, "chatty") == list(range(1, 3001))
    assert ENDED.fullmatch(out.splitlines()[-1]), out[-300:]
    assert run_id in typed.run("run", "list", "--status", "healthy", "-o", "name").split()
    typed.run("run", "wait", run_id)


def test_a_failed_run_says_why(typed: Typed):
    run_id = typed.run("run", "launch", "failing", "--wait", code=10).split()[0]

    assert "✗ fails exited with code 1" in typed.run("run", "why", run_id)
    typed.run("run", "wait", run_id, code=10)
    assert run_id in typed.run("run", "list", "--status", "failed", "-o", "name").split()


def test_a_watch_through_twenty_cuts_loses_and_doubles_no_line(
    cluster: Cluster, typed: Typed, token: str
):
    run_id = typed.run("run", "launch", "chatty", "--wait").split()[0]
    relay = Relay(cluster.port, cuts=20, after_bytes=30_011)
    typed.environment |= {
        "PARTITA_URL": f"http://127.0.0.1:{relay.port}", "PARTITA_TOKEN": token,
    }  # fmt: skip

    found = numbers_of(typed.run("run", "watch", run_id), "chatty")

    relay.close()
    assert found == list(range(1, 3001))
    assert relay.accepted > 15


def test_a_watch_goes_on_after_a_kill_9_of_the_web_process_and_of_the_runner(
    cluster: Cluster, typed: Typed
):
    run_id = typed.json("run", "launch", "steady")["id"]

    said = watch_through(
        typed,
        run_id,
        {
            50: lambda: cluster.crash("web", away_s=2),
            150: lambda: cluster.crash("runner", away_s=0),
            300: lambda: cluster.crash("web", away_s=0),
        },
    )

    assert numbers_of(said, "steady") == list(range(1, STEADY_LINES + 1))
    assert said.splitlines()[-1].startswith("✓ Steady: Healthy after")
    assert {step["attempt"] for step in cluster.detail(run_id)["steps"]} == {1}
    cluster.wait_ready()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure_port(cluster: Cluster, authority: Authority) -> int:
    """The port of a second web process, which ends TLS itself and is known as HOST."""
    pair, port = authority.pair(HOST), free_port()
    cluster.add(
        "web-tls", "web", PORT=str(port), PUBLIC_API_URL=f"https://{HOST}:{port}",
        UVICORN_SSL_CERTFILE=str(pair.cert), UVICORN_SSL_KEYFILE=str(pair.key),
    )  # fmt: skip
    process = cluster.processes["web-tls"]
    until(lambda: listens(port), within_s=60, what=lambda: f"it listens: {process.tail()}")
    return port


def test_over_tls_of_a_private_authority_and_through_a_proxy(
    authority: Authority, secure_port: int, tmp_path: Path, token: str
):
    url, tunnel = f"https://{HOST}:{secure_port}", f"CONNECT {HOST}:{secure_port} Basic "
    with serve_proxy() as (proxy, seen):
        typed = Typed(tmp_path, PARTITA_KEYRING="off", HTTPS_PROXY=proxy)
        refused = typed.run("login", url, "--token-stdin", text=token, code=6)
        assert "cannot be verified" in refused
        typed.run("login", url, "--token-stdin", "--ca-file", str(authority.file), text=token)

        out = typed.run("run", "launch", "chatty", "--watch")

    run_id = out.split()[0]
    assert out.splitlines()[0] == f"{run_id}  {url}/executions/{run_id}"
    assert numbers_of(out, "chatty") == list(range(1, 3001))
    assert ENDED.fullmatch(out.splitlines()[-1]), out[-300:]
    assert seen
    assert all(each.startswith(tunnel) for each in seen), seen


def test_a_code_is_confirmed_on_a_page_by_tls(
    authority: Authority, secure_port: int, tmp_path: Path
):
    url, trusted = f"https://{HOST}:{secure_port}", ssl.create_default_context()
    trusted.load_verify_locations(authority.file)
    with (
        serve_proxy() as (proxy, _),
        httpx.Client(
            base_url=url, proxy=proxy, verify=trusted, follow_redirects=True, timeout=60
        ) as browser,
    ):
        typed = Typed(tmp_path, PARTITA_KEYRING="off", HTTPS_PROXY=proxy)
        sign_in(browser, ADMIN)
        login = DeviceLogin(typed, url, "--ca-file", str(authority.file))
        login.confirm(browser, "approve", scope="run", days="7")
        login.ends(0)

        assert typed.json("whoami")["user"]["email"] == ADMIN["email"]
        typed.run("logout")
        assert "no server is known" in typed.run("run", "list", code=6)
