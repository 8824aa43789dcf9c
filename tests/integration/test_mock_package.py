"""The wheel of `partita-mock` as somebody has it who has nothing else: built, installed, called."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest

from kernel.version import VERSION
from tests.apps.mocks.test_served_files import EXAMPLES, OPENAPI
from tests.support.files import write_files
from tests.support.processes import ROOT, until
from tests.support.wheels import build_wheel, install_wheel

pytestmark = pytest.mark.slow
PACKAGES = {"cue", "kernel", "mocks", "readers", "surfaces"}
STATED_MB, TOLERANCE_MB = 57, 25  # of the guide; wheels differ by platform and version
PROTO = 'syntax = "proto3";\nservice Pay { rpc Take(Sum) returns (Sum); }\nmessage Sum {}\n'
SCRIPT = "spec: {dispatcher: script, dispatcherRules: 'not_here'}\n"
INVENTED = 'examples: {all: {response: {body: {name: "{{faker.firstName()}}"}}}}\n'
USE = """
import sys
from partita_mock.client import MockClient
mocks = MockClient(sys.argv[1])
mocks.verify("GET", "/pets", count=1)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"mocks", "kernel", "httpx"}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT / "partita_mock", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment that has the wheel and what it requires."""
    return install_wheel(wheel, tmp_path_factory.mktemp("environment") / "env")


@contextmanager
def serving(installed: Path, place: Path, *words: str) -> Iterator[tuple[dict[str, Any], Path]]:
    """Serve a place from a folder that has packages of names as ours; yield the facts."""
    folder = write_files(
        place.parent / "own", {"mocks/__init__.py": "1/0", "kernel/__init__.py": "1/0"}
    )
    out, err = folder / "out.txt", folder / "err.txt"
    command = [str(installed / "partita-mock"), str(place), "--port", "0", "-o", "json", *words]
    with out.open("w") as said, err.open("w") as warned:
        process = subprocess.Popen(
            command, cwd=folder, stdout=said, stderr=warned, env=variables(folder)
        )
    try:
        until(
            lambda: "\n" in out.read_text() or process.poll() is not None,
            within_s=120,
            what=err.read_text,
        )
        assert process.poll() is None, err.read_text()
        yield json.loads(out.read_text().partition("\n")[0]), err
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)


def variables(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(folder)}


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=cwd, env=variables(cwd), capture_output=True, text=True, check=False
    )


def details(facts: dict[str, Any]) -> list[str]:
    return [f"{each['file']}: {each['detail']}" for each in facts["warnings"]]


def test_the_wheel_has_five_packages_and_one_name(wheel: Path):
    names = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
    below = {name.split("/")[2] for name in names if name.startswith("partita_mock/packages/")}

    assert {name.split("/")[0] for name in names} == {"partita_mock"}
    assert below == PACKAGES
    assert "partita_mock/packages/cue/language/grammar.lark" in names
    assert [name for name in names if "__pycache__" in name] == []


def test_it_has_neither_django_nor_a_store_and_is_as_small_as_the_guide_says(installed: Path):
    libraries = next(installed.parent.glob("lib/python*/site-packages"))
    folders = {each.name for each in libraries.iterdir()}
    size = sum(each.stat().st_size for each in libraries.rglob("*") if each.suffix != ".pyc")
    guide = (ROOT / "docs/guides/mock-an-api.md").read_text()

    assert not {"django", "celery", "redis", "grpc", "starlark", "faker", "mocks"} & folders
    assert abs(size / 2**20 - STATED_MB) < TOLERANCE_MB
    stated = re.search(r"with (\d+) libraries \((\d+) MB\)", guide)
    assert stated
    assert int(stated[2]) == STATED_MB
    assert abs(len(list(libraries.glob("*.dist-info"))) - 1 - int(stated[1])) <= 2


def test_it_says_its_version_and_how_it_is_used(installed: Path, tmp_path: Path):
    program = installed / "partita-mock"

    assert run(program, "--version", cwd=tmp_path).stdout == f"partita-mock {VERSION}\n"
    assert "  partita-mock openapi.yaml --port 9000" in run(program, "--help", cwd=tmp_path).stdout
    nothing = run(program, "shop", cwd=tmp_path)
    assert nothing.returncode == 3
    assert '"shop" is neither a folder nor a file here' in nothing.stderr


def test_a_contract_alone_is_served_and_a_test_asks_what_was_called(
    installed: Path, tmp_path: Path
):
    contract = write_files(tmp_path, {"pets.yaml": OPENAPI}) / "pets.yaml"
    with serving(installed, contract) as (facts, _err):
        answer = httpx.get(f"{facts['surfaces'][0]['url']}/pets", timeout=30)
        asked = run(installed / "python", "-c", USE, facts["url"], cwd=tmp_path)

    assert answer.status_code == 200
    assert facts["warnings"] == []
    assert (asked.returncode, asked.stdout) == (0, "[]\n"), asked.stderr


def test_a_suite_is_served_and_what_lacks_a_library_says_which(installed: Path, tmp_path: Path):
    other = OPENAPI.replace("listPets", "listCats").replace("/pets", "/cats")
    suite = write_files(
        tmp_path / "shop",
        {
            "suite.star": "", "api/pets.yaml": OPENAPI, "mock/pets/listPets.yaml": EXAMPLES,
            "api/pay.proto": PROTO, "api/cats.yaml": other, "mock/cats/listCats.yaml": INVENTED,
            "mock/cats/listCats.metadata.yaml": SCRIPT,
        },
    )  # fmt: skip
    with serving(installed, suite) as (facts, _err):
        [url] = [each["url"] for each in facts["surfaces"] if each["id"] == "pets"]
        answer = httpx.get(f"{url}/pets", timeout=30)

    assert answer.json() == [{"name": "Rex"}]
    need = "needs a library that is not installed: pip install 'partita-mock"
    assert sorted(details(facts)) == [
        f"api/pay.proto: a .proto file {need}[grpc]'",
        f"mock/cats/listCats.metadata.yaml: dispatcherRules: a script {need}[scripts]'",
        'mock/cats/listCats.yaml: the example "all" is left out: {{faker.firstName()}}: '
        f"faker.firstName {need}[faker]'",
    ]


@pytest.mark.parametrize(
    ("option", "named", "extra"),
    [("--grpc-port", "--grpc-port", "grpc"), ("--https-port", "--tls", "tls")],
)
def test_an_option_that_lacks_a_library_says_which(
    installed: Path, tmp_path: Path, option: str, named: str, extra: str
):
    contract = write_files(tmp_path, {"pets.yaml": OPENAPI}) / "pets.yaml"

    done = run(installed / "partita-mock", contract, option, "0", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr == (
        f"error {named} needs a library that is not installed: "
        f"pip install 'partita-mock[{extra}]'\n"
    )
