"""Compression and lasting static files over HTTP/1.1 on a real server (decision 0024)."""

from __future__ import annotations

import re
import time
import zlib

import httpx
import pytest

from apps.accounts.models import User
from tests.apps.executions.runs import Worker, booted_run, node
from tests.support.people import principal_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PLAIN = {"Accept-Encoding": "identity"}
GZIP = {"Accept-Encoding": "gzip"}


def static_path(client: httpx.Client) -> str:
    """The address of a module, as a page names it."""
    found = re.search(r'src="(/static/[^"]+/frame\.js)"', client.get("/sign-in").text)
    assert found
    return found[1]


@pytest.mark.parametrize("path", ["/api/v1/schema", "/api/v1/suites/shop", "module"])
def test_what_is_compressed_decodes_to_the_same_bytes(client: httpx.Client, path: str):
    path = static_path(client) if path == "module" else path
    plain, small = client.get(path, headers=PLAIN), client.get(path, headers=GZIP)

    assert plain.content == small.content
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) < 0.7 * len(plain.content)
    for answer in (plain, small):
        assert "Accept-Encoding" in answer.headers["vary"]


def test_a_page_with_a_form_is_compressed_with_random_length(client: httpx.Client):
    sizes = {int(client.get("/sign-up").headers["content-length"]) for _ in range(12)}

    assert len(sizes) > 3  # against BREACH


def test_each_encoding_has_a_tag_of_its_own_and_either_answers_304(client: httpx.Client):
    path = static_path(client)
    tags = [client.get(path, headers=each).headers["etag"] for each in (PLAIN, GZIP)]

    assert tags[1] == tags[0][:-1] + '-gzip"'
    for tag in tags:
        again = client.get(path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert "Accept-Encoding" in again.headers["vary"]
        assert "content-encoding" not in again.headers


def test_a_head_has_the_headers_of_the_get(client: httpx.Client):
    path = static_path(client)
    got, head = client.get(path), client.head(path)

    assert head.content == b""
    for name in ("content-encoding", "etag", "vary", "cache-control", "content-type"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip;q=0", None), ("br, zstd", None), ("*", "gzip"), ("br;q=1.0, gzip;q=0.5", "gzip")],
)
def test_the_weights_of_the_client_count(client: httpx.Client, accepted: str, encoding: str | None):
    answer = client.get("/api/v1/schema", headers={"Accept-Encoding": accepted})

    assert answer.headers.get("content-encoding") == encoding


def test_files_of_this_version_last_and_modules_import_below_it(client: httpx.Client):
    path = static_path(client)
    module = client.get(path)
    imported = re.search(r'from "\./([a-z_]+\.js)"', module.text)
    assert imported

    assert "immutable" in module.headers["cache-control"]
    assert "immutable" in client.get(path.replace("frame.js", imported[1])).headers["cache-control"]
    other = re.sub(r"v-[0-9a-f]+", "v-0123456789abcdef", path)
    for address in (other, re.sub(r"v-[0-9a-f]+/", "", path)):
        answer = client.get(address)
        assert (answer.text, answer.headers["cache-control"]) == (module.text, "public, no-cache")


@pytest.mark.timed
@pytest.mark.parametrize("shared", [False, True], ids=["single", "shared"])
def test_a_compressed_stream_delivers_each_record_at_once(client: httpx.Client, shared: bool):
    run = booted_run(node("seed"), principal=principal_of(User.objects.get()))
    worker = Worker()
    worker.claim()
    path = f"/api/v1/executions/{run.id}/logs"
    asked = f"/api/v1/streams?stream={path}" if shared else path
    decoded, decoder = b"", zlib.decompressobj(31)

    with client.stream("GET", asked, headers=GZIP, timeout=10) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        pieces = answer.iter_raw()
        while b": connected" not in decoded:
            decoded += decoder.decompress(next(pieces))
        for n in range(5):
            worker.log("seed", f"line {n}", seq=n)
            started = time.perf_counter()
            while f"line {n}".encode() not in decoded:
                decoded += decoder.decompress(next(pieces))
            assert time.perf_counter() - started < 5  # the next ping comes after 15 s
        worker.end("seed")
        for piece in pieces:
            decoded += decoder.decompress(piece)

    assert decoder.eof  # the trailer, with a checksum of the whole, was there and right
    plain = client.get(asked, headers=PLAIN)
    assert "content-encoding" not in plain.headers
    lines = re.compile(rb"^id: .*\ndata: .*$", re.MULTILINE)
    assert lines.findall(plain.content) == lines.findall(decoded)
