"""`manage.py up` as a newcomer has it: a folder of its own, a terminal, a few other commands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import store_templates
from tests.support.files import write_files
from tests.support.parts import need, need_cluster
from tests.support.processes import ROOT, Process, until
from tests.support.servers import free_port

HELLO = ROOT / "examples" / "oci-suites" / "hello"
START_S = 60
REAL_RUNTIMES = (
    "process",
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("kubernetes", marks=pytest.mark.cluster),
)
ENDS = ("Healthy", "Failed", "Canceled")


class Up:
    """One data folder and the `up` on it; `LOCAL_RUNTIME` and the like as keywords.

    The first start finds a migrated store, unless `begins_empty` is set, as a newcomer has it.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.scratch = folder / "tmp"
        self.scratch.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        inherited = ("PATH", "HOME", "LANG", "DOCKER_HOST")
        self.environment = {key: os.environ[key] for key in inherited if key in os.environ} | {
            "DATA_DIR": str(self.data),
            "PORT": str(self.port),
            "TMPDIR": str(self.scratch),
            "XDG_STATE_HOME": str(folder / "state"),  # found by its own commands alone
            "PROFILES_FILE": str(folder / "svc-profiles.yaml"),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.starts = 0
        self.begins_empty = environment.get("DB_DRIVER", "sqlite") != "sqlite"
        self._process: Process | None = None
        self._token = ""
        self._asking: httpx.Client | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def start(self, **environment: str) -> Up:
        """Returns once it serves; `said` is then what it printed since."""
        if not (self.begins_empty or self.data.exists()):
            store_templates.copy_sqlite_store(self.data)
        self.starts += 1
        command = [sys.executable, "manage.py", "up"]
        log = self.folder / f"terminal-{self.starts}.txt"
        self._process = Process("up", command, self.environment | environment, log)
        self._process.start()
        self.hears("Ctrl-C stops it")
        return self

    def said(self) -> str:
        return (self.folder / f"terminal-{self.starts}.txt").read_text(errors="replace")

    def hears(self, words: str, *, within_s: float = START_S) -> str:
        """What was printed, once `words` are in it."""

        def heard() -> str | None:
            said = self.said()
            assert words in said or self.process.running, f"it ended: {said}"
            return said if words in said else None

        return until(
            heard, within_s=within_s, what=lambda: f"{words!r} in {self.said()}", each_s=0.05
        )

    def manage(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One more command on the same folder; it knows the address of `up` from there."""
        return self._run("manage.py", words, environment)

    def partita(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """One more command as it is typed: by HTTP where the client has it, with a home of ours."""
        home = {"XDG_CONFIG_HOME": str(self.folder / "config"), "PARTITA_KEYRING": "off"}
        return self._run("partita_program.py", words, home | environment)

    def _run(
        self, program: str, words: Sequence[str], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        known = {key: value for key, value in self.environment.items() if key != "PORT"}
        return subprocess.run(
            [sys.executable, program, *words], env=known | environment, cwd=ROOT,
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        """What a command prints for programs; runs are asked for by HTTP, as they are typed."""
        ask = self.partita if words[0] == "run" else self.manage
        answer = ask(*words, "-o", "json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def credentials(self) -> dict[str, str]:
        """As printed by the first start; later ones show no password."""
        said = (self.folder / "terminal-1.txt").read_text(errors="replace")
        match = re.search(r"sign in as (\S+) with (\S+)$", said, re.MULTILINE)
        assert match, said
        return {"email": match[1], "password": match[2]}

    def client(self) -> httpx.Client:
        """The API, for the printed account."""
        if not self._token:
            address = f"{self.url}/api/v1/auth/sign-in"
            answer = httpx.post(address, json=self.credentials(), timeout=60)
            assert answer.status_code == 200, answer.text
            self._token = str(answer.json()["token"])
        bearer = {"Authorization": f"Bearer {self._token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=bearer, timeout=30)

    def get(self, path: str, *, within_s: float = 30, **parameters: str) -> httpx.Response:
        """By one client for all questions: each client reads the certificates of the system."""
        if self._asking is None:
            self._asking = self.client()
        return self._asking.get(path, params=parameters, timeout=within_s)

    def launch(self, suite: str, **body: Any) -> str:
        """Launch by the API where the command is not the case: it takes 0.9 s of CPU."""
        with self.client() as client:
            answer = client.post("/executions", json={"suiteId": suite, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def end_environment(self, run_id: str) -> None:
        """End the kept environment of a run, if it still has one; by the API likewise."""
        with self.client() as client:
            client.delete(f"/executions/{run_id}/keep")

    def end_environments(self) -> None:
        """End each environment that is kept; return once the runtime has nothing of any run."""

        def has_none() -> bool:
            there = self.get("/sandboxes").json()["sandboxes"]
            for each in there:
                self.end_environment(each["runId"])
            return not there

        until(has_none, within_s=60, what="no environment is left", each_s=1)

    def detail(self, run_id: str) -> dict[str, Any]:
        answer = self.get(f"/executions/{run_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait_for(self, run_id: str, *statuses: str, within_s: float = 90) -> dict[str, Any]:
        """The run's detail once it has one of `statuses` (any terminal one by default)."""
        wanted = statuses or ENDS

        def there() -> dict[str, Any] | None:
            detail = self.detail(run_id)
            return detail if detail["status"] in wanted else None

        return until(
            there,
            within_s=within_s,
            what=lambda: f"{run_id} is {wanted}: {self._account_of(run_id)}\n{self.said()}",
            each_s=0.3,
        )

    def _account_of(self, run_id: str) -> str:
        """Return the run's state, a line for each step that is not healthy or skipped."""
        detail = self.detail(run_id)
        lines = [
            f"{step['id']}: {step['status']} {step.get('waitsFor', '')} {step.get('detail', '')}"
            for step in detail["steps"]
            if step["status"] not in ("healthy", "skipped")
        ]
        return "\n".join([f"it is {detail['status']}", *lines])

    def events(self, run_id: str) -> list[str]:
        return [event["id"] for event in self.detail(run_id)["events"]]

    def lines(self, run_id: str, *, source: str = "") -> list[dict[str, Any]]:
        """Stored log lines; of one step when named."""
        answer = self.get(f"/executions/{run_id}/logs/download", format="ndjson")
        records = [json.loads(line)["line"] for line in answer.text.splitlines()]
        return [line for line in records if not source or line["source"] == source]

    def send(self, number: signal.Signals) -> None:
        self.process.send(number)

    def exit_code(self, *, within_s: float = 30) -> int:
        """Waits for the end; nothing more is sent to bring it about."""
        until(lambda: not self.process.running, within_s=within_s, what="it ends")
        return self.process.stop()

    def ends(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it; the exit code."""
        self.send(number)
        return self.exit_code()

    def live_processes(self) -> dict[int, str]:
        """Of this host, whose command or folder is below ours."""
        found = {}
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), process.cwd()]
            except psutil.Error:
                continue
            if any(str(self.folder) in word for word in words):
                found[process.pid] = " ".join(words)
        return found

    def __enter__(self) -> Up:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.end()

    def end(self) -> None:
        """Whatever happened: nothing of ours is left on this host."""
        if self._process is not None:
            self._process.end()
        if self._asking is not None:
            self._asking.close()
        for pid in self.live_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def up_with_suite(
    folder: Path, runtime: str, name: str, star: str, files: dict[str, str]
) -> Iterator[Up]:
    """`up` on one of REAL_RUNTIMES, with this suite alone and without its demo.

    Of a cluster, which other tests need whole, it leaves no place taken.
    """
    write_suite(folder / "suites", name, star, files)
    more = runtime_of(runtime) | {"SUITES_DIR": str(folder / "suites"), "UP_DEMO": "0"}
    with Up(folder / "up", **more) as up:
        yield up
        if runtime == "kubernetes":
            up.end_environments()


def runtime_of(name: str) -> dict[str, str]:
    """Return the environment by which `up` runs steps on one of REAL_RUNTIMES."""
    known = {"LOCAL_RUNTIME": name}
    if name == "docker":
        known["DOCKER_HOST"] = need("TEST_DOCKER_HOST", "a Docker engine")
    if name == "kubernetes":
        known["KUBECONFIG"] = need_cluster()
    return known


def write_suite(folder: Path, name: str, star: str, files: dict[str, str]) -> None:
    """A suite workspace below `folder`; `files`: path in it → text."""
    home = folder / name
    everything = {"suite.star": star, "metadata.yaml": f"title: {name.title()}\n", **files}
    write_files(home, {path: textwrap.dedent(text).lstrip() for path, text in everything.items()})


def copy_hello(folder: Path) -> None:
    shutil.copytree(HELLO, folder / "hello")
