"""Resets through the store, and waiting until they are in force."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import httpx
import pytest

from apps.mocks.api import SpaceName, forget_spaces, mock_url, reset_space, wait_until_ready
from apps.mocks.models import MockSpace
from apps.mocks.selectors import resets_of
from apps.mocks.services.spaces import LEAST_ASK_S
from tests.support.http_threads import serve_http
from tests.support.mock_planes import planes

SHARED = SpaceName("orders")
RUN = SpaceName("orders", "run-1", "pay/db")


@pytest.mark.django_db
def test_each_reset_counts_for_its_surfaces() -> None:
    reset_space(RUN)
    reset_space(RUN, surface_ids=["a", "b"])
    reset_space(RUN, surface_ids=["b"])
    reset_space(SHARED)

    assert resets_of([str(RUN)]) == {str(RUN): {"": 1, "a": 1, "b": 2}}
    assert resets_of(["orders", "none"]) == {"orders": {"": 1}}


@pytest.mark.django_db
def test_the_spaces_of_removed_runs_are_forgotten() -> None:
    reset_space(RUN)
    reset_space(SHARED)
    forget_spaces(["run-1", "run-2"])

    assert [row.space for row in MockSpace.objects.all()] == ["orders"]


@pytest.mark.django_db
async def test_a_reset_in_the_store_empties_the_space_at_the_next_look() -> None:
    async with planes() as mocks:
        path = "/mocks/rest/orders/orders/orders"
        await mocks.ask("POST", path, json={})
        mocks.resets["orders"] = {"orders": 1}
        mocks.spaces.refresh()

        assert (await mocks.ask("POST", path, json={})).json()["made"] == "0"


def test_addresses_of_surfaces() -> None:
    assert mock_url("http://x/", RUN, "a b", "grpc") == (
        "http://x/mocks/grpc/orders@run-1+pay~db/a%20b"
    )


class Ready(BaseHTTPRequestHandler):
    """Answers 404 `refusals` times, then 200."""

    refusals = 0
    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        cls = type(self)
        cls.asked.append((self.path, self.headers.get("X-Partita-Mock-Secret")))
        ready = cls.refusals == 0
        cls.refusals = max(0, cls.refusals - 1)
        body = b'{"ready": true}' if ready else b'{"detail": "there is no suite"}'
        self.send_response(200 if ready else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    Ready.asked, Ready.refusals = [], 0
    with serve_http(Ready) as listening:
        yield f"http://127.0.0.1:{listening.server_port}"


def test_it_waits_until_every_surface_is_served(server: str, settings) -> None:
    settings.MOCK_SHARED_SECRET = "s3cret-word"
    Ready.refusals = 1

    assert wait_until_ready(server, RUN, ["a", "b"], timeout_s=10) == ""
    path = "/mocks/ready/orders@run-1+pay~db"
    assert Ready.asked == [
        (f"{path}/a", "s3cret-word"),
        (f"{path}/a", "s3cret-word"),
        (f"{path}/b", "s3cret-word"),
    ]


def test_it_says_why_a_surface_is_not_served(server: str) -> None:
    Ready.refusals = 1_000

    said = wait_until_ready(server, SHARED, ["a"], timeout_s=0.1)
    assert said == "the surface a is not served (there is no suite)"


def test_it_says_when_nobody_answers() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"

        said = wait_until_ready(address, SHARED, ["a"], timeout_s=0.1)
    assert said == f"the mocks at {address} do not answer (ConnectError)"


def test_a_server_that_is_silent_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def silent(_url: str, *, timeout: float, **_: object) -> None:
        limits.append(timeout)
        raise httpx.ReadTimeout("silent")

    monkeypatch.setattr(httpx, "get", silent)
    said = wait_until_ready("http://mocks", SHARED, ["a", "b"], timeout_s=0.1)

    assert said == "the mocks at http://mocks do not answer (ReadTimeout)"
    assert limits == [LEAST_ASK_S]
