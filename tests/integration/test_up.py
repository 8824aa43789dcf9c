"""`manage.py up`, from an empty folder to its end, as a subprocess."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.suites import make_suites
from tests.support.processes import until
from tests.support.up import Up, runtime_of, write_suite

PROCESS = {"LOCAL_RUNTIME": "process"}
GIVEN = "Given-by-hand-1"  # a password
MODES = [pytest.param("process"), pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "up"


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    return make_suites(tmp_path / "suites")


@pytest.fixture(params=MODES)
def up(request: pytest.FixtureRequest, folder: Path) -> Iterator[Up]:
    up = Up(folder, **runtime_of(request.param))
    up.begins_empty = True
    yield up
    up.end()


@pytest.fixture
def slow_up(folder: Path, suites: Path) -> Iterator[Up]:
    """Serves suites of this test, launches none; steps are processes."""
    up = Up(folder, SUITES_DIR=str(suites), UP_DEMO="0", **PROCESS)
    yield up
    up.end()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for the tests that only look at it; started with the password GIVEN and no demo."""
    folder = tmp_path_factory.mktemp("serving")
    suites = {"SUITES_DIR": str(make_suites(folder / "suites"))}
    up = Up(folder / "up", UP_DEMO="0", ADMIN_PASSWORD=GIVEN, **suites, **PROCESS)
    up.begins_empty = True
    yield up.start()
    up.end()


def page_for_a_visitor(page: str, credentials: dict[str, str]) -> str:
    """What an unknown visitor of `page` is shown after signing in by the form on the way."""
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        form = browser.get(page)
        assert "/sign-in" in str(form.url)
        hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]+)"', form.text))
        assert browser.post(str(form.url), data=credentials).status_code == 403, "CSRF matters"
        answer = browser.post(str(form.url), data=credentials | hidden)
        assert (answer.status_code, str(answer.url)) == (200, page)
        return answer.text


def left_of(up: Up, run_id: str) -> str:
    """Containers, networks and volumes of a run; empty where steps are processes."""
    if "DOCKER_HOST" not in up.environment:
        return ""
    listings = (("ps", "-aq"), ("network", "ls", "-q"), ("volume", "ls", "-q"))
    label = f"label=partita.run_id={run_id}"
    return "".join(
        subprocess.run(
            ["docker", "-H", up.environment["DOCKER_HOST"], *words, "--filter", label],
            capture_output=True, text=True, check=True,
        ).stdout
        for words in listings
    )  # fmt: skip


def demo_run(up: Up) -> str:
    match = re.search(r"/executions/(run-[0-9a-f]{12})", up.hears("/executions/run-"))
    assert match
    return match[1]


def test_from_an_empty_folder_to_a_healthy_run_and_out_again(up: Up):
    """Invariants 1, 14, 36."""
    up.start()
    said = up.hears("serving until Ctrl-C")
    run_id = demo_run(up)
    page = f"{up.url}/executions/{run_id}"

    told = ["accepted", "greeter: the mailbox is open", "Ada has an answer", "guests greeted: 3"]
    places = [said.index(words) for words in [*told, "Hello: Healthy"]]
    assert places == sorted(places), "the lines come as they happen, the verdict last"
    assert page in said
    assert ("(not isolated)" in said) == (up.environment["LOCAL_RUNTIME"] == "process")

    shown = page_for_a_visitor(page, up.credentials())
    assert "everyone-greeted" in shown
    assert "Healthy" in shown
    assert ("not isolated" in shown) == ("not isolated" in said)

    assert httpx.get(f"{up.url}/readyz").status_code == 200, "it goes on serving"
    assert up.process.running
    stop = signal.SIGTERM if "not isolated" in said else signal.SIGINT
    assert up.ends(stop) == 0
    assert up.said().splitlines()[-1] == "stopped"
    assert up.live_processes() == {}
    assert list(up.scratch.iterdir()) == []
    assert left_of(up, run_id) == ""
    assert "Traceback" not in up.said() + (up.data / "up.log").read_text()


class OpenStream(threading.Thread):
    """Reads one stream until the server ends it."""

    def __init__(self, up: Up, path: str) -> None:
        super().__init__(daemon=True)
        self._client, self._path = up.client(), path
        self.body = b""

    def run(self) -> None:
        with self._client, self._client.stream("GET", self._path, timeout=60) as answer:
            for piece in answer.iter_bytes():
                self.body += piece


def readiness_until_gone(up: Up) -> list[int]:
    """The statuses of /readyz until nobody answers, without repetitions."""
    seen: list[int] = []
    once = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(timeout=20, limits=once) as client:
        while True:
            try:
                status = client.get(f"{up.url}/readyz").status_code
            except httpx.TransportError:
                return seen
            if seen[-1:] != [status]:
                seen.append(status)
            time.sleep(0.02)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_drains_and_its_successor_goes_on(slow_up: Up, stop: signal.Signals):
    """Invariants 10, 12, 14, 39."""
    up = slow_up.start()
    account = up.credentials()
    run_id = walking(up, "--profile", "long.yaml")
    with open_streams(up, run_id) as streams:
        up.send(stop)
        assert readiness_until_gone(up) in ([503], [200, 503])
        assert up.exit_code() == 0
    for body in (stream.body for stream in streams):
        assert body.endswith(b"\n\n"), body[-200:]
        assert b"event: end" not in body, "the run is not over"
    assert f"{run_id} (Slow) has not ended" in up.said()
    assert list(up.scratch.iterdir()) == []
    assert_only_steps_are_left(up)

    up.start()
    assert signs_in(up, account["password"])
    until(lambda: "walk-adopted" in up.events(run_id), within_s=30, what="walk is adopted")
    assert up.partita("run", "cancel", run_id).returncode == 0
    assert up.wait_for(run_id)["status"] == "Canceled"
    assert_walked(up, run_id, of=3000)
    assert up.ends(stop) == 0
    assert up.live_processes() == {}


def walking(up: Up, *options: str) -> str:
    """A run of `slow` that has begun to print its numbers."""
    run_id = str(up.json("run", "launch", "slow", *options)["id"])
    until(lambda: up.lines(run_id, source="walk"), within_s=30, what="walk walks", each_s=0.3)
    return run_id


def assert_walked(up: Up, run_id: str, *, of: int) -> int:
    """Every number once, in order; how many."""
    told = [line["text"] for line in up.lines(run_id, source="walk") if line["kind"] == "output"]
    assert told == [f"{n}/{of} walked" for n in range(1, len(told) + 1)]
    return len(told)


def assert_only_steps_are_left(up: Up) -> None:
    steps = ("wrapper.py", "walk.sh", "clock.sh", "sleep")
    others = [said for said in up.live_processes().values() if not any(s in said for s in steps)]
    assert not others


@contextmanager
def open_streams(up: Up, run_id: str) -> Iterator[list[OpenStream]]:
    """Logs, events and overview, each read on; at the end they must end soon."""
    of_run = f"/executions/{run_id}"
    paths = (f"{of_run}/logs", f"{of_run}/events", "/engine/overview/stream")
    streams = [OpenStream(up, path) for path in paths]
    for stream in streams:
        stream.start()
    until(lambda: all(b"data: " in each.body for each in streams), within_s=30, what="records")
    yield streams
    for stream in streams:
        stream.join(5)
        assert not stream.is_alive(), "it ends with the server"


@pytest.mark.timed
def test_a_second_signal_ends_it_at_once_and_loses_nothing(slow_up: Up):
    """Invariant 39."""
    up = slow_up.start()
    run_id = walking(up)

    began = time.monotonic()
    up.send(signal.SIGINT)
    up.hears("again: at once")
    assert up.ends(signal.SIGINT) == 130
    assert time.monotonic() - began < 2
    up.start()

    assert up.wait_for(run_id)["status"] == "Healthy"
    assert assert_walked(up, run_id, of=20) == 20


def test_hello_goes_on_after_kill_9(up: Up):
    """Invariants 6, 10, 11, 39."""
    up.start()
    account, run_id = up.credentials(), demo_run(up)
    up.hears("posted a letter")
    up.process.kill()

    up.start(UP_DEMO="0")

    detail = up.wait_for(run_id)
    assert signs_in(up, account["password"])
    assert detail["status"] == "Healthy", detail
    assert {step["attempt"] for step in detail["steps"]} == {1}, "nothing ran twice"
    assert_lines_once(up, run_id)
    assert up.ends() == 0
    assert left_of(up, run_id) == ""
    assert up.live_processes() == {}


def assert_lines_once(up: Up, run_id: str) -> None:
    """What a step printed is there once: its lines of output, by attempt, repeat nothing."""
    told = [
        (line["source"], line["attempt"], line["text"])
        for line in up.lines(run_id)
        if line["kind"] == "output"
    ]
    assert len(told) == len(set(told))
    for guest in ("Ada", "Grace", "Alan"):
        assert ("letters", 1, f"{guest} has an answer") in told


@pytest.mark.docker
def test_shop_goes_on_after_kill_9(folder: Path):
    """Invariants 6, 9, 11, 39. An attempt whose container was not created yet is given back."""
    up = Up(folder, UP_DEMO="0", **runtime_of("docker"))
    try:
        up.start()
        run_id = up.json("run", "launch", "shop")["id"]
        until(lambda: up.lines(run_id, source="warm-cache"), within_s=60, what="warm-cache runs")
        up.process.kill()
        up.start()
        detail = up.wait_for(run_id)
        assert detail["status"] == "Healthy", detail
        attempts = {step["id"]: step["attempt"] for step in detail["steps"]}
        given_back = [event for event in detail["events"] if "warm-cache-requeued" in event["id"]]
        assert attempts.pop("warm-cache") == 2 + len(given_back)
        assert attempts.pop("rollback") == 0
        assert set(attempts.values()) == {1}
        assert up.ends() == 0
        assert left_of(up, run_id) == ""
    finally:
        up.end()


# What it prints is true


def signs_in(up: Up, password: str) -> bool:
    body = {"email": "admin@partita.local", "password": password}
    answer = httpx.post(f"{up.url}/api/v1/auth/sign-in", json=body, timeout=30)
    return answer.status_code == 200


def test_the_generated_password_is_printed_by_the_first_start_only(slow_up: Up):
    """Invariant 19. Nor is another one promised that is not the account's."""
    up = slow_up.start()
    password = up.credentials()["password"]
    up.ends()

    said = up.start().said()

    assert password not in said
    assert f"sign in as admin@partita.local with the password in {up.data}/up.env" in said
    assert f"ADMIN_PASSWORD={password}\n" in (up.data / "up.env").read_text()
    assert (up.data / "up.env").stat().st_mode & 0o777 == 0o600
    assert signs_in(up, password)
    up.ends()

    said = up.start(ADMIN_PASSWORD="Another-one-2").said()

    assert "sign in as admin@partita.local with the account's own password" in said
    assert "Another-one-2" not in said
    assert not signs_in(up, "Another-one-2")


def test_a_given_password_is_neither_printed_nor_kept(serving: Up):
    """Invariant 19."""
    said = serving.said()

    assert "sign in as admin@partita.local with the password in ADMIN_PASSWORD" in said
    assert signs_in(serving, GIVEN)
    kept = [path.read_text() for path in serving.data.glob("up.*")]
    assert not any(GIVEN in text for text in [said, *kept])


def test_without_a_demo_it_names_a_command_that_works(serving: Up):
    said = serving.said()

    command = re.search(r"launch a suite: (.+)", serving.hears("launch a suite"))
    assert command, said
    suite = command[1].split()[-2]
    assert serving.manage("suite", "show", suite).returncode == 0
    assert str(serving.data) in command[1]


def test_where_the_suite_hello_is_missing_it_says_so(slow_up: Up, tmp_path: Path):
    write_suite(tmp_path / "own", "mine", 'task.run("t", commands=["true"])\n', {})

    said = slow_up.start(UP_DEMO="1", SUITES_DIR=str(tmp_path / "own")).hears("run launch mine")

    assert "the suite hello is not installed" in said
    assert "was not launched" not in said


def test_it_listens_on_loopback_only_and_says_so(serving: Up):
    sockets = psutil.net_connections("inet")
    listening = [tuple(each.laddr) for each in sockets if each.status == psutil.CONN_LISTEN]
    assert [place[0] for place in listening if place[1] == serving.port] == ["127.0.0.1"]
    assert f"listening on 127.0.0.1:{serving.port}\n" in serving.said()


def test_it_answers_to_its_own_names_only(serving: Up):
    def status(host: str, path: str) -> int:
        return httpx.get(f"{serving.url}{path}", headers={"Host": host}, timeout=30).status_code

    for path in ("/sign-in", "/api/v1/auth/config", "/static/console/css/settings.css"):
        assert status(f"localhost:{serving.port}", path) == 200
        assert status(f"127.0.0.1:{serving.port}", path) == 200
        assert status("evil.example", path) == 400
    assert status("evil.example", "/readyz") == 200
    mock = httpx.get(f"{serving.url}/mocks/rest/none/x", headers={"Host": "pay.example"})
    assert mock.json()["code"] == "suite_not_found"


def test_what_it_writes_is_for_its_owner_only(serving: Up):
    names = ("up.env", "up.log", "partita.sqlite3", "partita.sqlite3-wal")
    httpx.get(f"{serving.url}/api/v1/executions", timeout=30)  # each request is logged
    until((serving.data / "up.log").exists, within_s=30, what="the log has a line")
    kept = {path.name: path.stat().st_mode & 0o777 for path in serving.data.iterdir()}

    assert serving.data.stat().st_mode & 0o777 == 0o700
    assert {name: kept[name] for name in names} == dict.fromkeys(names, 0o600)


def test_an_open_address_is_warned_of(slow_up: Up):
    said = slow_up.start(HOST="0.0.0.0").said()

    assert f"listening on 0.0.0.0:{slow_up.port}\n" in said
    assert "every network of this machine" in said


# What goes wrong, in one sentence


def assert_one_sentence(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    [sentence] = [line for line in answer.stderr.splitlines() if line.strip()]
    assert sentence.startswith("error"), sentence
    assert all(word in sentence for word in words), sentence


def test_a_second_up_on_the_same_folder(serving: Up):
    second = serving.manage("up", PORT="1")
    assert second.returncode == 5
    assert_one_sentence(second, "another `up`", str(serving.data), "DATA_DIR=")


def test_a_taken_port(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = Up(folder, **PROCESS).manage("up", PORT=str(port))
    assert answer.returncode == 5
    assert_one_sentence(answer, f"127.0.0.1:{port}", "PORT=")


@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "abc"), ("LEASE", "soon"), ("DB_DRIVER", "oracle"), ("UP_DEMO", "perhaps"),
     ("LOCAL_RUNTIME", "podman"), ("DB_DRIVER", "postgres"), ("DATA_DIR", "/proc/no/folder")],
)  # fmt: skip
def test_a_variable_that_cannot_be_read(folder: Path, name: str, value: str):
    answer = Up(folder).manage("up", **{name: value})
    assert answer.returncode == 2
    assert_one_sentence(answer, name)


@pytest.mark.parametrize(
    "store",
    [{"DB_DRIVER": "sqlite"}, {"DB_DRIVER": "mongo", "MONGO_URI": "mongodb://127.0.0.1:1"},
     {"DB_DRIVER": "postgres", "POSTGRES_DSN": "postgresql://nobody@127.0.0.1:1/nothing"}],
    ids=["sqlite", "mongo", "postgres"],
)  # fmt: skip
def test_no_store(folder: Path, store: dict[str, str]):
    answer = Up(folder).manage("artifacts", "status", **store)
    assert answer.returncode == 6
    assert_one_sentence(answer, f"DB_DRIVER={store['DB_DRIVER']}", "start `up` once")


@pytest.mark.parametrize(
    "away",
    [{"DB_DRIVER": "mongo", "MONGO_URI": "mongodb://127.0.0.1:1"},
     {"DB_DRIVER": "postgres", "POSTGRES_DSN": "postgresql://nobody@127.0.0.1:1/nothing"}],
    ids=["mongo", "postgres"],
)  # fmt: skip
def test_a_store_that_is_away(folder: Path, away: dict[str, str]):
    up = Up(folder, **PROCESS)
    answer = up.manage("up", PORT=str(up.port), **away)
    assert answer.returncode == 6
    assert_one_sentence(answer, f"DB_DRIVER={away['DB_DRIVER']}", "refused")


def test_an_address_of_another_machine(folder: Path):
    answer = Up(folder, **PROCESS).manage("up", HOST="192.0.2.1")
    assert answer.returncode == 5
    assert_one_sentence(answer, "192.0.2.1", "HOST=127.0.0.1")


def test_no_container_runtime(folder: Path):
    """Invariant 34."""
    up = Up(folder, DOCKER_HOST=f"unix://{folder}/nobody.sock")
    try:
        said = up.start().hears("Hello: Healthy")
        assert "does not answer" in said
        assert "not isolated" in said
        summary = up.json("run", "launch", "hello")
        assert summary["backend"] == "Local processes (not isolated)", "other commands know it"
    finally:
        up.end()
