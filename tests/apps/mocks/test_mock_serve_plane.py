"""What `mock serve` says and answers: its start, `/`, explain, mocks without headers of pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mocks.plane.http_responses import SECURITY
from mocks.standalone.arguments import parser_of
from mocks.standalone.output import Output, ServerFacts
from mocks.standalone.overview import prefers_html
from mocks.standalone.plane import StandalonePlane
from mocks.standalone.served_files import ServedFiles
from mocks.standalone.served_suite import ServedSuite
from tests.support.files import write_files

BASE = "http://127.0.0.1:8095"
CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
OPENAPI = """\
openapi: 3.0.3
info: {title: "Pets <script>alert(1)</script>", version: "1"}
paths:
  /pets:
    get:
      operationId: listPets
      summary: "All <b>pets</b>"
      responses: {"200": {description: ok}}
    delete: {operationId: dropPets, responses: {"204": {description: ok}}}
  "/pets/{id}/<i>":
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: getPet, responses: {"200": {description: ok}}}
"""
PAGE = """\
examples:
  page:
    response:
      headers:
        Content-Type: text/html
        Content-Security-Policy: "default-src https:"
        X-Frame-Options: SAMEORIGIN
      body: <h1>Pets</h1>
"""
DROPPED = """\
examples:
  dropped:
    response: {status: "204", headers: {Content-Type: application/json, X-Own: kept}}
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    files = {"suite.star": "", "api/pets.yaml": OPENAPI, "mock/pets/listPets.yaml": PAGE}
    files["mock/pets/dropPets.yaml"] = DROPPED
    files["mock/pets/getPet.metadata.yaml"] = "spec: {fallback: {mode: never}}\n"
    folder = write_files(tmp_path / "shop", files)
    suite = ServedSuite(ServedFiles(folder), BASE, kept=lambda *_: None)
    plane = StandalonePlane(suite, logged=None, allowed=[])
    transport = httpx.ASGITransport(app=plane)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as made:
        yield made
    plane.stop()


async def test_the_overview_names_surfaces_and_operations(client: httpx.AsyncClient):
    answer = await client.get("/")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    document: dict[str, Any] = answer.json()
    assert (document["suiteId"], document["operations"]) == ("shop", 3)
    [surface] = document["surfaces"]
    assert (surface["id"], surface["url"]) == ("pets", f"{BASE}/mocks/rest/shop/pets")
    first = surface["operations"][0]
    assert first == {
        "id": "listPets",
        "method": "GET",
        "path": "/pets",
        "summary": "All <b>pets</b>",
        "url": f"{BASE}/mocks/rest/shop/pets/pets",
        "curl": f"curl -i {BASE}/mocks/rest/shop/pets/pets",
    }
    assert [each["file"] for each in document["warnings"]] == ["mock/pets/getPet.metadata.yaml"]
    for each in surface["operations"][:2]:
        assert (await client.request(each["method"], each["url"])).status_code in (200, 204)


async def test_a_browser_gets_a_page_whose_texts_are_escaped(client: httpx.AsyncClient):
    answer = await client.get("/", headers={"Accept": CHROME})

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert "<i>" not in answer.text
    assert "Pets &lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "All &lt;b&gt;pets&lt;/b&gt;" in answer.text
    assert '<a href="/mocks/rest/shop/pets/pets"><b>GET</b> /pets</a>' in answer.text
    assert "/pets/{id}/&lt;i&gt;" in answer.text
    assert "mock/pets/getPet.metadata.yaml:1:" in answer.text


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        (CHROME, True),
        ("text/html", True),
        ("application/json, text/html;q=0.5", False),
        ("application/json;q=0.5, Text/HTML", True),
        ("text/html;q=0", False),
        ("text/html;q=x", False),
    ],
)
def test_accept_chooses_the_form(accept: str, html: bool):
    assert prefers_html(accept) is html


async def test_the_overview_has_get_alone(client: httpx.AsyncClient):
    head = await client.head("/")
    assert (head.status_code, head.content) == (200, b"")
    refused = await client.post("/")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert refused.json()["code"] == "method_not_allowed"
    assert (await client.options("/")).status_code == 204


async def test_mocks_have_their_own_headers_and_none_of_pages(client: httpx.AsyncClient):
    explained = {"surfaceId": "pets", "operationId": "listPets"}
    for answer in (
        await client.get("/mocks/rest/shop/pets/pets/1"),
        await client.get("/mocks/rest/shop/pets/nothing"),
        await client.get("/mocks/ready/shop/pets"),
        await client.get("/nothing"),
        await client.get("/mocks/channels/shop/pets/x"),
        await client.get("/"),
        await client.post("/api/v1/mocks/explain", json=explained),
        await client.post("/api/v1/mocks/explain", content="x"),
        await client.get("/api/v1/mocks/explain"),
    ):
        assert not {name.decode() for name, _ in SECURITY} & answer.headers.keys(), answer.url

    for _ in range(2):  # the second one is prepared
        page = await client.get("/mocks/rest/shop/pets/pets")
        assert page.headers["content-security-policy"] == "default-src https:"
        assert page.headers["x-frame-options"] == "SAMEORIGIN"
        assert page.headers["x-partita-mock-example"] == "page"
    resolved = await client.get("/internal/mock-data/shop/pets/listPets")
    assert resolved.json()["headers"]["X-Frame-Options"] == ["SAMEORIGIN"]


async def test_an_answer_without_a_body_has_no_content_type(client: httpx.AsyncClient):
    for _ in range(2):  # the second one is prepared
        answer = await client.delete("/mocks/rest/shop/pets/pets")
        assert (answer.status_code, answer.content) == (204, b"")
        assert "content-type" not in answer.headers
        assert answer.headers["x-own"] == "kept"


def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """The lines on stdout and stderr at a start."""
    suite = ServedSuite(ServedFiles(folder), BASE, kept=lambda *_: None)
    Output(as_json=False).facts(ServerFacts(suite, BASE, "127.0.0.1:8097", 0.35))
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


LIMITED = """\
openapi: 3.0.3
paths:
  /pets:
    get:
      parameters: [{name: limit, in: query, schema: {type: integer}}]
      responses: {"200": {description: ok}}
"""


async def test_validate_of_the_command_wins_and_the_log_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = {"api/pets.yaml": LIMITED, "metadata.yaml": "mocks: {validate: off}\n"}
    folder = write_files(tmp_path / "shop", files)
    options = parser_of("serve").parse_args([str(folder), "--validate", "enforce"])
    suite = ServedSuite(ServedFiles(folder), BASE, kept=lambda *_: None)
    for mode, status in ((None, 200), (options.validate, 422)):
        show = Output(as_json=False)
        plane = StandalonePlane(suite, logged=show.call, allowed=[], validate=mode)
        transport = httpx.ASGITransport(app=plane)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            answer = await client.get("/mocks/rest/shop/pets/pets?limit=x")
        plane.stop()

        assert answer.status_code == status
        [line] = capsys.readouterr().out.splitlines()
        told = "; breaks its contract: /query/limit: must be integer"
        assert line.endswith(told) is (mode == "enforce")


def test_a_large_suite_starts_with_a_dozen_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = {f"api/pets-{number:03}.yaml": OPENAPI for number in range(170)}
    files |= {
        f"mock/pets-{number:03}/getPet.metadata.yaml": "spec: {fallback: {mode: never}}\n"
        for number in range(40)
    }
    out, err = said(write_files(tmp_path / "shop", files), capsys)

    assert len(out) + len(err) <= 13
    assert out[0] == f"Shop (shop) on {BASE}: 170 surfaces"
    assert [line.split()[0] for line in out[1:5]] == [f"pets-{n:03}" for n in range(4)]
    assert out[5] == f"  and 166 more: {BASE}/ lists all"
    assert out[-1].startswith("510 operations, 40 warnings; started in 350 ms")
    assert err[-1] == f"  and 37 more: {BASE}/ lists all"


def test_a_small_suite_is_shown_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = {f"api/pets-{number}.yaml": OPENAPI for number in range(4)}
    out, err = said(write_files(tmp_path / "shop", files), capsys)

    assert [line for line in out if "more" in line] == err == []
    assert out[4].split() == ["pets-3", f"{BASE}/mocks/rest/shop/pets-3", "3", "operations"]


async def test_calls_are_verified_listed_and_forgotten_without_a_session(client: httpx.AsyncClient):
    for tag in ("a", "b", "b"):
        await client.get("/mocks/rest/shop/pets/pets", headers={"X-Partita-Mock-Tag": tag})
    pets = {"method": "GET", "path": "/pets"}

    async def ask(**body: Any) -> Any:
        answer = await client.post("/api/v1/mocks/verify", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert (await ask(**pets, count=3))["verified"]
    assert (await ask(**pets, suiteId="shop", tag="b", count=2))["verified"]
    short = await ask(**pets, tag="a", count=2)
    assert short["detail"].startswith('expected 2 calls of GET /pets with tag "a", found 1; ')
    listed = (await client.get("/api/v1/mocks/journal?tag=b&limit=1")).json()["entries"]
    assert [each["tag"] for each in listed] == ["b"]
    none = (await client.get("/api/v1/mocks/journal?outcome=no_match")).json()
    assert none == {"entries": []}
    forgotten = await client.delete("/api/v1/mocks/journal?tag=b")
    assert forgotten.json() == {"removed": 2}
    assert (await ask(**pets, count=1))["verified"]


async def test_state_is_listed_and_removed_without_a_session(client: httpx.AsyncClient):
    assert (await client.get("/api/v1/mocks/state?suiteId=shop")).json() == {
        "records": [], "counters": [],
    }  # fmt: skip
    assert (await client.delete("/api/v1/mocks/state?key=x")).json() == {"removed": 0}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "verify", '{"methd": "GET"}', 400, "validation_failed"),
        ("POST", "verify", "{", 400, "malformed_json"),
        ("POST", "verify", "[" * 100_000, 400, "malformed_json"),
        ("POST", "verify", '{"suiteId": "other"}', 404, "suite_not_found"),
        ("POST", "verify", '{"executionId": "run-1"}', 404, "space_not_active"),
        ("GET", "verify", "", 405, "method_not_allowed"),
        ("GET", "journal?tga=x", "", 400, "unknown_parameter"),
        ("GET", "journal?tag=a%20b", "", 400, "validation_failed"),
        ("GET", "journal?outcome=x", "", 400, "invalid_parameter"),
        ("GET", "journal?limit=0", "", 400, "invalid_parameter"),
        ("GET", "journal?limit=9999999999999", "", 400, "invalid_parameter"),
        ("GET", "journal?suiteId=x", "", 404, "suite_not_found"),
        ("PUT", "state", "", 405, "method_not_allowed"),
    ],
)
async def test_what_is_asked_wrongly_is_refused(
    client: httpx.AsyncClient, method: str, path: str, body: str, status: int, code: str
):
    answer = await client.request(method, f"/api/v1/mocks/{path}", content=body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_pages_of_other_origins_do_not_see_calls(client: httpx.AsyncClient):
    foreign = {"Origin": "https://elsewhere.test"}
    for path in ("journal", "state"):
        answer = await client.get(f"/api/v1/mocks/{path}", headers=foreign)
        assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in answer.headers
        own = await client.get(f"/api/v1/mocks/{path}", headers={"Origin": BASE})
        assert own.status_code == 200
