"""`partita_mock.client`: what tests of other projects ask `mock serve` and a control plane."""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

import pytest
import uvicorn

from kernel.listeners import bound_socket
from mocks.standalone.plane import StandalonePlane
from mocks.standalone.served_files import ServedFiles
from mocks.standalone.served_suite import ServedSuite
from partita_mock import client as client_module
from partita_mock.client import MockClient, MockError, UnexpectedCalls
from tests.support.files import write_files

OPENAPI = """\
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets:
    get: {operationId: listPets, responses: {"200": {description: ok}}}
    post: {operationId: addPet, responses: {"201": {description: ok}}}
"""
ADDED = """\
spec: {state: {mutationKeyTemplate: "pet:{{request.body.name}}", transitions: [{set: {is: here}}]}}
"""


@pytest.fixture(scope="module")
def mock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `mock serve` with a suite `shop`, in this process."""
    folder = write_files(
        tmp_path_factory.mktemp("s") / "shop",
        {
            "suite.star": "",
            "api/pets.yaml": OPENAPI,
            "mock/pets/addPet.yaml": 'examples: {added: {response: {status: "201"}}}',
            "mock/pets/addPet.metadata.yaml": ADDED,
        },
    )
    with bound_socket("127.0.0.1", 0) as bound:
        bound.listen()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        suite = ServedSuite(ServedFiles(folder), url, kept=lambda *_: None)
        plane = StandalonePlane(suite, logged=None, allowed=[])
        server = uvicorn.Server(uvicorn.Config(plane, lifespan="off", log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        yield url
        server.should_exit = True
        thread.join(20)
        plane.stop()


@pytest.fixture
def served(mock_server: str) -> str:
    """The address of the mocks, which nobody has called since their reset."""
    MockClient(mock_server).reset(tag="", state=True)
    return mock_server


def call(url: str, mocks: MockClient, body: dict[str, Any] | None = None, query: str = "") -> None:
    """Call a mock as a service under test does."""
    request = Request(
        f"{url}/mocks/rest/shop/pets/pets{query}",
        data=None if body is None else json.dumps(body).encode(),
        headers={**mocks.headers, "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=20) as answer:
        assert answer.status in (200, 201)


def test_a_test_verifies_its_own_calls(served: str):
    mocks, other = MockClient(served, tag="one"), MockClient(served, space="shop", tag="two")
    for name in ("Rex", "Tom"):
        call(served, mocks, {"name": name})
    call(served, other, query="?q=Rex")

    mocks.verify("POST", "/pets")
    mocks.verify("POST", "/{what}", count=1, body={"name": "Rex"})
    mocks.verify("POST", "/pets", at_most=2, when=[{"from": "body", "param": "name", "in": ["x"]}])
    other.verify(operation="listPets", count=1, query={"q": "Rex"}, surface="pets", valid=True)
    assert (mocks.count(), mocks.count(tag=""), mocks.count(outcome="error")) == (2, 3, 0)
    assert [json.loads(each["requestBody"])["name"] for each in mocks.calls(limit=1)] == ["Tom"]
    with pytest.raises(UnexpectedCalls, match=r'body\.name is "Tom", not "Ada"') as missed:
        mocks.verify("POST", "/pets", body={"name": "Ada"})
    assert missed.value.answer["count"] == 0
    assert isinstance(missed.value, AssertionError)

    assert mocks.state() == {"pet:Rex": {"is": "here"}, "pet:Tom": {"is": "here"}}
    assert mocks.state("pet:Tom") == {"pet:Tom": {"is": "here"}}
    assert mocks.reset() == 2
    assert (mocks.count(), other.count(), len(mocks.state())) == (0, 1, 2)
    assert other.reset(tag="", state=True) == 1
    assert other.state() == {}


def test_unmatched_calls_say_what_was_nearest(served: str):
    mocks = MockClient(served, tag="three")
    with pytest.raises(OSError, match="404"):
        urlopen(Request(f"{served}/mocks/rest/shop/pets/pts", headers=mocks.headers), timeout=20)

    [call_] = mocks.unmatched_calls()
    assert call_["nearest"]["path"] == "/pets"


def test_mistakes_and_absence_are_errors(served: str):
    mocks = MockClient(served)
    with pytest.raises(MockError, match="write one of them") as refused:
        mocks.verify(count=1, at_most=2)
    assert refused.value.problem["errors"][0]["pointer"] == "/atMost"
    with pytest.raises(MockError, match="'other'"):
        MockClient(served, space="other").count()
    with pytest.raises(MockError, match="does not answer"):
        MockClient("http://127.0.0.1:1").count()
    with pytest.raises(ValueError, match="expected an address"):
        MockClient("file:///etc/passwd")
    with pytest.raises(TypeError):
        mocks.verify(methd="GET")  # type: ignore[call-arg]


class _Elsewhere(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str, str | None, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.command, self.path, self.headers["Authorization"], body))
        status = 302 if self.path.startswith("/moved") else 502
        self.send_response(status)
        self.send_header("Location", "/api/v1/mocks/verify")
        self.end_headers()
        self.wfile.write(b"no JSON")

    def log_message(self, format: str, *_arguments: Any) -> None:  # noqa: A002
        """Say nothing."""


def test_the_token_and_the_space_go_to_the_control_plane_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        space = "shop@run-x+pay~db"
        with pytest.raises(MockError, match="status 502"):
            MockClient(url, space=space, token="t0").count()
        with pytest.raises(MockError, match="status 302"):
            MockClient(f"{url}/moved", space=space, token="t0").count()
        server.shutdown()

    [first, moved] = _Elsewhere.asked
    assert first[:3] == ("POST", "/api/v1/mocks/verify", "Bearer t0")
    assert (first[3]["suiteId"], first[3]["executionId"], first[3]["import"]) == (
        "shop", "run-x", "pay/db",
    )  # fmt: skip
    assert moved[1].startswith("/moved")


def test_the_client_needs_the_standard_library_alone():
    tree = ast.parse(Path(client_module.__file__).read_text())
    modules = {
        each.module or "" if isinstance(each, ast.ImportFrom) else each.names[0].name
        for each in ast.walk(tree)
        if isinstance(each, ast.Import | ast.ImportFrom)
    }

    assert {each.partition(".")[0] for each in modules} <= sys.stdlib_module_names
