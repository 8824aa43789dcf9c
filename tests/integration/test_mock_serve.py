"""`mock serve` as a process: it serves at once, without Django, and follows edits of its files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import pytest
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.apps.mocks.test_served_files import EXAMPLES, OPENAPI
from tests.support.files import write_files
from tests.support.processes import ROOT, until

pytestmark = pytest.mark.slow
START_CPU_S = 2.0  # it takes a quarter of that; the machine may be slow


class Served:
    """One `mock serve`; what it prints goes to files."""

    def __init__(self, folder: Path, *words: str, python: tuple[str, ...] = ()) -> None:
        self.out, self.err = folder / "stdout.txt", folder / "stderr.txt"
        known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *python, "manage.py", "mock", "serve", *words],
                cwd=ROOT,
                env=known,
                stdout=out,
                stderr=err,
            )
        self.client: httpx.Client | None = None

    def facts(self) -> dict[str, Any]:
        """What `-o json` says at the start."""

        def said() -> str | None:
            assert self.process.poll() is None, self.err.read_text()
            first, newline, _ = self.out.read_text().partition("\n")
            return first if newline else None

        return dict(json.loads(until(said, within_s=60, what="it says that it serves")))

    def get(self, url: str) -> httpx.Response:
        self.client = self.client or httpx.Client(timeout=30)
        return self.client.get(url)

    def hears(self, pattern: str, *, where: Path | None = None) -> re.Match[str]:
        file = where or self.err
        return until(
            lambda: re.search(pattern, file.read_text(), re.M),
            within_s=30,
            what=lambda: f"{pattern!r} in {file.read_text()}",
        )

    def ends(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)

    def end(self) -> None:
        if self.client is not None:
            self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    files = {"suite.star": "", "api/pets.yaml": OPENAPI, "mock/pets/listPets.yaml": EXAMPLES}
    return write_files(tmp_path / "shop", files)


@pytest.fixture
def served(tmp_path: Path, shop: Path) -> Iterator[Served]:
    made = Served(tmp_path, str(shop), "--port", "0", "-o", "json", "--log")
    yield made
    made.end()


def test_it_serves_says_what_and_ends_cleanly(served: Served, shop: Path):
    facts = served.facts()
    spent = psutil.Process(served.process.pid).cpu_times()

    assert spent.user + spent.system < START_CPU_S
    assert facts["suiteId"] == "shop"
    assert facts["operations"] == 1
    assert facts["warnings"] == []
    [surface] = facts["surfaces"]
    assert surface == {
        "id": "pets",
        "url": f"{facts['url']}/mocks/rest/shop/pets",
        "operations": 1,
    }
    assert f"{surface['url']}/pets" in facts["curl"]
    answer = served.get(f"{surface['url']}/pets")
    assert (answer.status_code, answer.json()) == (200, [{"name": "Rex"}])
    assert answer.headers["x-partita-mock-example"] == "all"

    served.hears('"matchedExample": "all"', where=served.out)
    assert served.ends(signal.SIGINT) == 0
    assert served.err.read_text() == ""


def test_a_process_that_seems_to_hang_says_what_its_threads_do(served: Served):
    url = served.facts()["url"]
    served.process.send_signal(signal.SIGUSR1)

    served.hears(r"^Current thread .*most recent call first")
    served.hears(r"manage\.py.* in serve_mocks")
    assert served.get(url).status_code == 200


def test_it_needs_no_django(tmp_path: Path, shop: Path):
    served = Served(tmp_path, str(shop), "--port", "0", "-o", "json", python=("-X", "importtime"))
    try:
        facts = served.facts()
        assert served.get(f"{facts['surfaces'][0]['url']}/pets").status_code == 200
        imported = set(re.findall(r"\| +([\w.]+)$", served.err.read_text(), re.M))
        assert {"uvloop", "mocks.standalone.command"} <= imported
        slow = {"graphql", "grpc", "faker", "psutil", "urllib.request", "httpx", "lark"}
        slow |= {"h2", "cryptography", "mocks.standalone.tls"}
        assert not ({"django", "channels", "celery", "rest_framework"} | slow) & imported
    finally:
        served.end()


def test_an_edit_answers_and_a_broken_one_does_not(served: Served, shop: Path):
    url = f"{served.facts()['surfaces'][0]['url']}/pets"
    examples = shop / "mock" / "pets" / "listPets.yaml"
    assert served.get(url).json() == [{"name": "Rex"}]

    examples.write_text(EXAMPLES.replace("Rex", "Tom"))
    until(lambda: served.get(url).json() == [{"name": "Tom"}], within_s=30, what="the edit")
    served.hears("^reloaded: 1 operation, 0 warnings$")

    examples.write_text("examples:\n  all: {response: [\n")
    served.hears(
        r"^kept the last good version of mock/pets/listPets\.yaml; all other files are served as "
        r"they are now\n  mock/pets/listPets\.yaml:3:1: "
    )
    assert served.get(url).json() == [{"name": "Tom"}]

    examples.write_text(EXAMPLES.replace("Rex", "Kit"))
    until(lambda: served.get(url).json() == [{"name": "Kit"}], within_s=30, what="the repair")


def test_an_unmatched_call_is_shown_with_what_differs(tmp_path: Path, shop: Path):
    conditions = "[{from: query, param: name, value: Rex}, {from: query, param: age, value: '7'}]"
    write_files(shop, {"mock/pets/listPets.yaml": f"examples: {{rex: {{when: {conditions}}}}}\n"})
    served = Served(tmp_path, str(shop), "--port", "0", "--log")
    try:
        found = served.hears(r"^  pets  (\S+) ", where=served.out)
        assert served.get(f"{found[1]}/pets?name=Tom").status_code == 404
        served.hears(
            r"listPets: no_match \(.* ms\); nearest: rex \(query name must be 'Rex', it is 'Tom'; "
            r"query age must be '7', it is missing\)$",
            where=served.out,
        )
    finally:
        served.end()


def test_no_request_is_lost_while_it_reloads(served: Served, shop: Path):
    url = f"{served.facts()['surfaces'][0]['url']}/pets"
    examples = shop / "mock" / "pets" / "listPets.yaml"
    seen = set()
    for number in range(3):
        examples.write_text(EXAMPLES.replace("Rex", f"Rex {number}"))

        def new(number: int = number) -> bool:
            answer = served.get(url)
            assert answer.status_code == 200, answer.text
            seen.add(answer.json()[0]["name"])
            return f"Rex {number}" in seen

        until(new, within_s=30, what="the edit", each_s=0.002)
    assert seen >= {f"Rex {number}" for number in range(3)}


def test_a_contract_alone_is_served_and_said_for_people(tmp_path: Path):
    write_files(tmp_path, {"openapi.yaml": OPENAPI})
    served = Served(tmp_path, str(tmp_path / "openapi.yaml"), "--port", "0", "--log")
    try:
        found = served.hears(r"^  (\S+) +(http\S+) +1 operation$", where=served.out)
        served.hears(r"^try: curl -i http\S+/pets$", where=served.out)
        served.hears(r"^1 operation, 0 warnings; started in \d+ ms, Ctrl-C", where=served.out)
        assert served.get(f"{found[2]}/nothing").status_code == 404
        served.hears(
            r"404 GET /nothing -> pets: no_match \(.* ms\); nearest: GET /pets \(path differs\)$",
            where=served.out,
        )
        assert served.ends(signal.SIGTERM) == 0
    finally:
        served.end()


def test_grpc_is_served_beside_http(tmp_path: Path):
    suite = str(ROOT / "examples" / "oci-suites" / "shop")
    served = Served(tmp_path, suite, "--port", "0", "--grpc-port", "0", "-o", "json")
    try:
        facts = served.facts()
        with grpc.insecure_channel(facts["grpc"]) as channel:
            services = ProtoReflectionDescriptorDatabase(channel).get_services()
        assert "shop.payments.v1.Payments" in services, services
        taken = ended(suite, "--port", "0", "--grpc-port", facts["url"].rpartition(":")[2])
        assert served.ends(signal.SIGINT) == 0
    finally:
        served.end()
    assert (taken.returncode, taken.stdout) == (5, ""), taken.stderr


def ended(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", "mock", "serve", *words],
        cwd=ROOT, env=known | environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


def test_wrong_use_is_said(tmp_path: Path, shop: Path, served: Served):
    port = str(httpx.URL(served.facts()["url"]).port)
    broken = write_files(tmp_path / "broken", {"suite.star": ""})
    (broken / "x.yaml").write_bytes(b"\0")
    for words, code, said in (
        ((), 2, "usage: partita mock serve"),
        (("shop", "--port", "70000"), 2, "'70000' is not a port (0 to 65535)"),
        (("shop", "--colour"), 2, "unrecognized arguments: --colour"),
        (("no-such-suite",), 3, 'error suite_not_found: "no-such-suite" is neither'),
        (
            (str(write_files(tmp_path / "empty", {"suite.star": ""})), "--port", "0"),
            3,
            "no operation",
        ),
        ((str(broken), "--port", "0"), 1, "error package_invalid: x.yaml contains a NUL byte"),
        (("no-such-suite", "--port", port), 3, "error suite_not_found"),
        ((str(shop), "--port", port), 5, f"127.0.0.1:{port} (Address already in use)"),
        ((str(shop), "--host", "192.0.2.1"), 1, "--host must be an address of this machine"),
    ):
        answer = ended(*words)
        assert answer.returncode == code, (words, answer.stderr)
        assert said in answer.stderr, words
        assert answer.stdout == ""


def test_the_help_has_examples_and_exit_codes():
    answer = ended("--help")

    assert answer.returncode == 0
    assert "mock serve openapi.yaml --port 9000" in answer.stdout
    assert "exit codes: 0 stopped" in answer.stdout


def test_the_command_of_mocks_lists_it_and_leads_there():
    known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}

    def said(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT, env=known, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "mock serve openapi.yaml" in said("mock", "--help")
    assert "exit codes: 0 stopped" in said("mock", "--traceback", "serve", "--help")
    answer = subprocess.run(
        [sys.executable, "manage.py", "mock", "--traceback", "serve", "no-such-suite"],
        cwd=ROOT, env=known, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert (answer.returncode, "is neither a folder" in answer.stderr) == (3, True), answer.stderr


def test_an_id_is_a_suite_of_the_workspace(tmp_path: Path, shop: Path):
    answer = ended("shop", "--host", "192.0.2.1", SUITES_DIR=str(shop.parent))
    assert answer.returncode == 1
    missing = ended("other", "--port", "0", SUITES_DIR=str(shop.parent))
    assert missing.returncode == 3
    assert str(shop.parent) in missing.stderr
