"""Invariant 19: a secret of a profile is nowhere in clear after a run that prints it in many forms.

Everything that the platform keeps or sends is searched: all tables of the store, every command to
Redis (cache, nudges, Celery's messages), every file of the processes, spans, and the API.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
import tarfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, quote_plus

import psycopg
import pytest
import redis

from tests.support.cluster import SETTINGS, Cluster
from tests.support.files import write_files
from tests.support.otlp import Collector, collecting
from tests.support.parts import need
from tests.support.processes import until

PLANTED = 'p@ss/w+rd "ä" & <horse>'
OVERRIDE = "battery/staple+0451?"
MARK = "the-step-has-run"
SUITE = """
load("@partita/runtime", "log", "task")

leak = task.run(
    file = "tasks/leak.py",
    exports = [
        {"path": "report.txt", "on": "always"},
        {"path": "junit.xml", "format": "junit", "on": "always"},
    ],
)
log.info(name = "says", message = "token {{env.PSP_TOKEN}} and {{env.OTHER_TOKEN}}", after = [leak])
"""
LEAK = """
import base64, html, json, os, sys, time
from pathlib import Path
from urllib.parse import quote, quote_plus

out = []
for name in ("PSP_TOKEN", "OTHER_TOKEN"):
    value = os.environ[name]
    raw = value.encode()
    out += [
        value,
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        base64.b64encode(b"user:" + raw).decode(),
        quote(value, safe=""), quote(value), quote_plus(value), quote(value, safe="").lower(),
        json.dumps(value), json.dumps({"token": value}, ensure_ascii=False),
        json.dumps(json.dumps({"token": value})),
        html.escape(value),
        raw.hex(), raw.hex().upper(),
    ]
print("the-step-" + "has-run", flush=True)
for text in out:
    print("out", text, flush=True)
    print("err", text, file=sys.stderr, flush=True)
for text in out[:3]:
    for piece in text:  # in pieces that arrive one by one
        sys.stdout.write(piece)
        sys.stdout.flush()
        time.sleep(0.002)
    print(flush=True)
report = "the-step-" + "has-run\\n" + "\\n".join(out)
folder = Path(os.environ["PARTITA_ARTIFACTS_DIR"])
(folder / "report.txt").write_text(report)
kind = "failure" if os.environ.get("FAIL") else "skipped"
(folder / "junit.xml").write_text(
    f"<testsuite><testcase name='t'><{kind} message='" + html.escape(out[0]) + "'>"
    + html.escape(report) + f"</{kind}></testcase></testsuite>"
)
sys.exit(out[0] + " is what it failed with" if os.environ.get("FAIL") else 0)
"""
pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow]


class Everything:
    """What was found anywhere, as text with its place."""

    def __init__(self, cluster: Cluster, spans: Collector, monitored: list[str]) -> None:
        self.cluster = cluster
        self.spans = spans
        self.monitored = monitored

    def texts(self) -> Iterator[tuple[str, str]]:
        yield from self.tables()
        yield from (("redis", text) for command in self.monitored for text in _unpacked(command))
        yield from self.redis_keys()
        yield from self.files()
        yield from (("span", str(span)) for span in self.spans.spans)

    def tables(self) -> Iterator[tuple[str, str]]:
        with psycopg.connect(self.cluster.environment["POSTGRES_DSN"]) as store:
            tables = store.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            ).fetchall()
            for (table,) in tables:
                for row in store.execute(f'SELECT * FROM "{table}"').fetchall():
                    for value in row:
                        for text in _unpacked(value):
                            yield f"table {table}", text

    def redis_keys(self) -> Iterator[tuple[str, str]]:
        client = _redis(self.cluster)
        for key in client.scan_iter("*"):
            yield "redis key", repr(key)
            for text in _unpacked(client.dump(key)):
                yield f"redis {key!r}", text
        client.close()

    def files(self) -> Iterator[tuple[str, str]]:
        for path in self.cluster.folder.rglob("*"):
            if path.is_file() and path.name != "configuration.yaml":  # where it was planted
                for text in _unpacked(path.read_bytes()):
                    yield f"file {path.name}", text


def _redis(cluster: Cluster) -> Any:
    host, port = cluster.environment["REDIS_ADDR"].split(":")
    return redis.Redis(host=host, port=int(port))


def _unpacked(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield a value as text, also uncompressed, out of an archive, and out of base64."""
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
        if depth < 3:
            for inner in _decompressed(value):
                yield from _unpacked(inner, depth + 1)
        return
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    yield text
    if depth < 2:
        for found in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", text):
            with suppress(ValueError):
                yield base64.b64decode(found + "=" * (-len(found) % 4)).decode(errors="replace")


def _decompressed(value: bytes) -> Iterator[bytes]:
    with suppress(zlib.error):
        yield zlib.decompress(value)
    with suppress(OSError, EOFError, zlib.error):
        whole = gzip.decompress(value)
        yield whole
        with suppress(tarfile.TarError), tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            for member in archive:
                if content := archive.extractfile(member):
                    yield content.read()


def forms_of(value: str) -> dict[str, str]:
    raw = value.encode()
    return {
        "plain": value,
        "base64": base64.b64encode(raw).decode(),
        "base64url": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "inside base64": base64.b64encode(b"user:" + raw).decode()[8:-4],
        "url": quote(value, safe=""),
        "path": quote(value),
        "form": quote_plus(value),
        "lower-case url": quote(value, safe="").lower(),
        "json": json.dumps(value)[1:-1],
        "json twice": json.dumps(json.dumps(value))[3:-3],
        "html": html.escape(value),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
    }


@contextmanager
def monitored(cluster: Cluster) -> Iterator[list[str]]:
    """Every command that Redis gets meanwhile."""
    client = _redis(cluster)
    commands: list[str] = []
    ended = threading.Event()
    with client.monitor() as monitor:

        def listen() -> None:
            with suppress(redis.ConnectionError, ValueError, OSError):
                for command in monitor.listen():
                    commands.append(command["command"])
                    if ended.is_set():
                        return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield commands
        ended.set()
        client.ping()
        thread.join(5)
    client.close()


@pytest.fixture(scope="module")
def spans() -> Iterator[Collector]:
    with collecting("http/protobuf") as received:
        yield received


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spans: Collector) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("planted")
    suite = folder / "leaky"
    write_files(suite, {"suite.star": SUITE, "tasks/leak.py": LEAK})
    telemetry = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": spans.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    environment = telemetry | {"PARTITA_SECRET_PSP": PLANTED, "LOG_LEVEL": "DEBUG"}
    postgres = need("TEST_POSTGRES_DSN", "PostgreSQL")
    made = Cluster(
        folder / "cluster",
        parts=(),
        environment=environment,
        postgres=postgres,
        suites=[suite],
    )
    with made as cluster:
        override = {"key": "OTHER_TOKEN", "value": OVERRIDE, "sensitive": True}
        (cluster.folder / "configuration.yaml").write_text(
            f"{SETTINGS}secrets: {{globalOverrides: [{json.dumps(override)}]}}\n"
        )
        for name in ("web", "celery"):
            cluster.add(name)
        cluster.wait_ready()
        yield cluster


def profile_of(cluster: Cluster) -> None:
    """A stored profile that names the secret in its YAML."""
    text = "secretRefs: [{key: PSP_TOKEN, provider: local, ref: psp}]\nenv: {FAIL: '1'}\n"
    for name, yaml in (("good", text.partition("\n")[0]), ("bad", text)):
        body = {"name": name, "fileName": f"{name}.yaml", "yaml": yaml}
        answer = cluster.client.post("/profiles/suites/leaky", json=body)
        assert answer.status_code in (201, 409), answer.text


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        pytest.param("worker", "edge", id="processes"),
        pytest.param("runner", "local", id="docker", marks=pytest.mark.docker),
    ],
)
def test_a_planted_secret_is_nowhere(cluster: Cluster, spans: Collector, kind: str, backend: str):
    profile_of(cluster)
    more = {key: value for key, value in cluster.environment.items() if key.startswith("OTEL")}
    if kind == "worker":
        process = cluster.add("edge-1", kind="worker", LOCAL_RUNTIME="process", **more)
    else:
        process = cluster.add("runner")
    until(lambda: _is_available(cluster, backend), within_s=60, what=process.tail)
    before = len(spans.spans)
    with monitored(cluster) as commands:
        runs = [
            cluster.launch("leaky", profile=profile, backend=backend) for profile in ("good", "bad")
        ]
        details = [cluster.wait_over(run_id) for run_id in runs]
        answers = [text for run_id in runs for text in _answers(cluster, run_id)]
    process.end()
    until(lambda: len(spans.spans) > before, within_s=30, what="spans arrive")

    said = json.dumps([each["steps"] for each in details], indent=1)
    assert [each["status"] for each in details] == ["Healthy", "Failed"], said + answers[1]
    found = list(Everything(cluster, spans, commands).texts())
    found += [("api", text) for text in answers]
    kept = {place for place, text in found if MARK in text}
    assert {"table", "api"} <= {place.split()[0] for place in kept}, "the search sees the output"
    assert any(command.startswith(("LPUSH", "PUBLISH", "SET")) for command in commands)
    assert any("***" in text for place, text in found if place == "api")
    leaks = {
        (place, form)
        for secret in (PLANTED, OVERRIDE)
        for form, text in forms_of(secret).items()
        for place, where in found
        if text in where
    }
    assert not leaks


def _is_available(cluster: Cluster, backend: str) -> bool:
    suites = cluster.get("/executions/launch-suites").json()["suites"]
    return any(
        each["id"] == backend and each["available"]
        for suite in suites
        for each in suite["backends"]
    )


def _answers(cluster: Cluster, run_id: str) -> Iterator[str]:
    detail = cluster.detail(run_id)
    yield json.dumps(detail, ensure_ascii=False)
    yield cluster.get(f"/executions/{run_id}/logs/download", format="txt").text
    yield cluster.get(f"/executions/{run_id}/junit").text
    for artifact in detail["artifacts"]:
        yield cluster.get(f"/executions/{run_id}/artifacts/{artifact['id']}").text
    yield cluster.get("/profiles/suites/leaky").text
