"""Requests: what is repeated, who is trusted, which way they go, what comes of a wrong answer."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from partita_client import ApiProblem, Client, ClientError, NoConnection, NotPartita
from partita_client.addresses import parse_address, proxy_for
from partita_client.connection_failures import explain_failure
from partita_client.errors import BadConfiguration, NoTls, UnknownHost
from partita_client.patience import is_passing
from tests.support.fake_partita import (
    RUN,
    TOKEN,
    FakePartita,
    Relay,
    problem,
    serve_bytes,
    serve_fake,
    serve_proxy,
)
from tests.support.registries import Certificate, certificate

Open = Callable[..., Client]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("transport", "downloads"):
        monkeypatch.setattr(f"partita_client.{module}.pause_s", lambda _failures: 0.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def by_tls(made: Certificate) -> Iterator[FakePartita]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.chain, made.key)
    with serve_fake(context) as served:
        yield served


def times_away(times: int) -> Any:
    """A route that is 503 so many times, and then has an empty list."""
    left = [times]

    def handle(*_: Any) -> Any:
        if left[0]:
            left[0] -= 1
            return problem(503, "datastore_unavailable", "the store is away")
        return 200, {"executions": [], "total": 0}

    return handle


def test_a_read_is_repeated_while_the_server_is_away(fake: FakePartita, open_client: Open):
    fake.answers["GET /api/v1/executions"] = times_away(2)

    assert open_client(fake.url, token=TOKEN).runs() == []
    assert fake.count("GET /api/v1/executions") == 3


def test_it_gives_up_after_three_times(fake: FakePartita, open_client: Open):
    fake.answers["GET /api/v1/executions"] = times_away(9)

    with pytest.raises(ApiProblem, match="the store is away") as refused:
        open_client(fake.url, token=TOKEN).runs()
    assert (refused.value.exit_code, fake.count("GET /api/v1/executions")) == (6, 3)


def test_a_launch_whose_answer_was_lost_is_repeated_with_the_same_key(
    fake: FakePartita, open_client: Open
):
    relay = Relay(urlsplit(fake.url).port or 0, cuts=1, after_bytes=1)

    run = open_client(f"http://127.0.0.1:{relay.port}", token=TOKEN).launch("shop")

    relay.close()
    keys = [headers["idempotency-key"] for headers in fake.headers]
    assert run["status"] == "Queued"
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize("body", [b"{}", b" " * 3000])
def test_an_answer_that_is_cut_inside_is_not_taken_as_whole(open_client: Open, body: bytes):
    with serve_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + body) as (url, asked):
        with pytest.raises(NoConnection, match="it was cut"):
            open_client(url, token=TOKEN).me()
        assert len(asked) == 3

        with pytest.raises(NoConnection):
            open_client(url, token=TOKEN).sign_out()
        assert len(asked) == 4


def test_a_read_is_repeated_after_a_cut_inside_the_answer(fake: FakePartita, open_client: Open):
    fake.runs = [{"id": "x" * 9000}]
    relay = Relay(urlsplit(fake.url).port or 0, cuts=2, after_bytes=6000)

    found = open_client(f"http://127.0.0.1:{relay.port}", token=TOKEN).runs()

    relay.close()
    assert (found, relay.accepted) == (fake.runs, 3)


def test_another_write_is_never_repeated(fake: FakePartita, open_client: Open):
    fake.answers["POST /api/v1/auth/sign-out"] = times_away(9)

    with pytest.raises(ApiProblem):
        open_client(fake.url, token=TOKEN).sign_out()
    assert fake.count("POST /api/v1/auth/sign-out") == 1


def test_a_private_authority_is_trusted_by_its_file(
    by_tls: FakePartita, made: Certificate, open_client: Open
):
    client = open_client(by_tls.url, token=TOKEN, ca_file=str(made.authority))

    assert client.me()["role"] == "runner"


def test_an_unknown_authority_is_refused_and_the_option_named(
    by_tls: FakePartita, open_client: Open
):
    with pytest.raises(NoConnection, match="cannot be verified") as refused:
        open_client(by_tls.url, token=TOKEN).me()

    assert "--ca-file" in refused.value.advice
    assert not is_passing(refused.value)
    assert by_tls.asked == []


def test_a_certificate_of_another_host_is_refused(
    by_tls: FakePartita, made: Certificate, open_client: Open
):
    port = urlsplit(by_tls.url).port
    with pytest.raises(NoConnection, match="cannot be verified"):
        open_client(f"https://127.1:{port}", ca_file=str(made.authority)).health()


@pytest.mark.parametrize("text", ["", "no certificate"])
def test_a_file_that_is_no_authority_is_named(
    by_tls: FakePartita, tmp_path: Path, text: str, open_client: Open
):
    (tmp_path / "ca.pem").write_text(text)
    with pytest.raises(BadConfiguration, match=r"ca\.pem cannot be used"):
        open_client(by_tls.url, ca_file=str(tmp_path / "ca.pem")).health()


def test_plain_http_goes_through_the_proxy_of_the_environment(
    fake: FakePartita, monkeypatch, open_client: Open
):
    with serve_proxy() as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy)
        url = f"http://partita.test:{urlsplit(fake.url).port}"

        assert open_client(url, token=TOKEN).me()["role"] == "runner"
    assert seen == [f"GET {url}/api/v1/auth/me"]
    assert fake.headers[0]["host"] == url.removeprefix("http://")


def test_tls_goes_through_a_tunnel_of_the_proxy(
    by_tls: FakePartita, made, monkeypatch, open_client: Open
):
    monkeypatch.setattr("partita_client.addresses._LOOPBACK", ())
    with serve_proxy() as (proxy, seen):
        monkeypatch.setenv("HTTPS_PROXY", proxy)

        assert open_client(by_tls.url, token=TOKEN, ca_file=str(made.authority)).me()
    port = urlsplit(by_tls.url).port
    assert seen == [f"CONNECT localhost:{port} Basic YWRhOnBhc3M="]


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (b"407 Proxy Authentication Required", NotPartita, "USER:PASSWORD@HOST:PORT"),
        (b"403 Forbidden", NotPartita, "no_proxy=partita.test"),
        (b"503 Service Unavailable", NoConnection, ""),
    ],
    ids=["407", "403", "503"],
)
def test_a_proxy_that_refuses_a_tunnel_is_named(
    monkeypatch, open_client: Open, status: bytes, error: type[ClientError], said: str
):
    with serve_bytes(b"HTTP/1.1 " + status + b"\r\n\r\n") as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with pytest.raises(error) as raised:
            open_client("https://partita.test").me()

    words = f"the proxy of HTTPS_PROXY refused partita.test: {status.decode()}"
    assert raised.value.detail == words
    assert said in raised.value.advice
    assert "partita up" not in raised.value.advice
    assert len(asked) == (3 if error is NoConnection else 1)


@pytest.mark.parametrize(
    ("url", "environment", "goes"),
    [
        ("https://a.example", {"https_proxy": "http://p:3128"}, True),
        ("https://a.example", {"http_proxy": "http://p:3128"}, False),
        ("https://a.example", {"ALL_PROXY": "p:3128"}, True),
        ("https://a.example", {"https_proxy": "http://p", "no_proxy": "example"}, False),
        ("https://a.example", {"https_proxy": "http://p", "NO_PROXY": ".example"}, False),
        ("https://a.example", {"https_proxy": "http://p", "no_proxy": "b.example,*"}, False),
        ("https://a.example", {"https_proxy": "http://p", "no_proxy": "a.example:8443"}, True),
        ("https://ba.example", {"https_proxy": "http://p", "no_proxy": "a.example"}, True),
        ("http://localhost:8090", {"http_proxy": "http://p"}, False),
        ("http://[::1]:8090", {"http_proxy": "http://p"}, False),
    ],
)
def test_which_addresses_a_proxy_is_for(url: str, environment: dict[str, str], goes: bool):
    assert (proxy_for(parse_address(url), environment) is not None) is goes


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("socks5://ada:s3cret@p:1", "socks5://p:1"),
        ("http://ada:s3cret@p:port", "http://p:port"),
        ("http://ada:s3cret@p:99999", "http://p:99999"),
        ("ada:s3cret@:8080", ":8080"),
        ("http://ada:s3c://ret@[p", "[p"),
    ],
)
def test_a_proxy_that_is_none_is_named_without_its_password(variable: str, value: str, shown: str):
    with pytest.raises(BadConfiguration, match="expected a proxy such as") as refused:
        proxy_for(parse_address("https://a.example"), {variable: value})

    assert refused.value.detail.startswith(f"{variable}=")
    assert f"{shown}: expected" in refused.value.detail
    assert "ret" not in refused.value.detail


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("partita.example.com", "https://partita.example.com"),
        ("localhost:8090", "http://localhost:8090"),
        ("https://partita.example.com:443/", "https://partita.example.com"),
        ("https://a.example/partita/executions/run-1?tab=log", "https://a.example/partita"),
        ("http://[::1]:8090/api/v1", "http://[::1]:8090"),
    ],
)
def test_an_address_is_known_as_people_write_it(typed: str, meant: str):
    assert parse_address(typed).url == meant


@pytest.mark.parametrize(
    "typed", ["", "ftp://a", "https://", "https://a:b", "https://ada:pw@a", "https://a b", "a\nb"]
)
def test_what_is_no_address_is_refused(typed: str):
    with pytest.raises(BadConfiguration):
        parse_address(typed)


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[1]", b"\xff"])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_another_server_is_told_from_partita(
    fake: FakePartita, status: int, body: bytes, open_client: Open
):
    for path in ("/healthz", "/api/v1/auth/me"):
        fake.answers[f"GET {path}"] = lambda *_: (status, body)

    for ask in (open_client(fake.url, token=TOKEN).health, open_client(fake.url, token=TOKEN).me):
        if status == 200 and body == b"[1]" and ask.__name__ == "me":
            continue  # it is JSON; who reads it sees that it has no user
        with pytest.raises(NotPartita):
            ask()


def test_an_answer_without_end_is_refused(fake: FakePartita, monkeypatch, open_client: Open):
    monkeypatch.setattr("partita_client.transport.ANSWER_MAX_BYTES", 1000)
    fake.answers["GET /api/v1/auth/me"] = lambda *_: (200, b" " * 5000)

    with pytest.raises(NotPartita, match="is larger than") as refused:
        open_client(fake.url, token=TOKEN).me()
    assert not is_passing(refused.value)


def test_what_speaks_no_http_is_not_waited_for():
    error = explain_failure(http.client.BadStatusLine("SSH-2.0"), parse_address("http://h"))
    cut = explain_failure(http.client.RemoteDisconnected("cut"), parse_address("http://h"))

    assert (is_passing(error), is_passing(cut)) == (False, True)


@pytest.mark.parametrize(
    ("number", "is_unknown"),
    [(socket.EAI_NONAME, True), (socket.EAI_NODATA, True), (socket.EAI_AGAIN, False)],
)
def test_a_host_that_does_not_exist_is_told_from_dns_that_does_not_answer(
    number: int, is_unknown: bool
):
    error = explain_failure(
        socket.gaierror(number, "why"), parse_address("https://partita.exmaple")
    )

    assert isinstance(error, UnknownHost) is is_unknown
    assert "partita.exmaple" in error.detail
    assert "DNS" in error.advice


def test_a_proxy_that_does_not_exist_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("https_proxy", "http://ada:secret@proxi:3128")
    unknown = socket.gaierror(socket.EAI_NONAME, "why")

    error = explain_failure(unknown, parse_address("https://partita.example"))

    assert error.detail == "there is no host proxi, the proxy of https_proxy (why)"
    assert "check the spelling of https_proxy" in error.advice


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), TimeoutError()])
def test_a_proxy_on_the_way_is_named_where_nothing_answers(
    monkeypatch: pytest.MonkeyPatch, error: OSError
):
    monkeypatch.setenv("https_proxy", "http://ada:secret@proxy:3128")

    explained = explain_failure(error, parse_address("https://partita.example"))

    assert "https://partita.example through proxy:3128, the proxy of https_proxy" in str(explained)
    assert explained.advice == "check https_proxy, or go without: no_proxy=partita.example"


def test_a_server_without_tls_is_told_from_one_that_hangs_up(fake: FakePartita, open_client: Open):
    """A load balancer whose servers are away hangs up, too."""
    port = urlsplit(fake.url).port
    with pytest.raises(NoTls, match="does not speak TLS") as without:
        open_client(f"https://127.0.0.1:{port}").health()
    with serve_bytes(b"") as (silent, _), pytest.raises(NoConnection) as cut:
        open_client(silent.replace("http:", "https:")).health()

    assert f"without TLS it is http://127.0.0.1:{port}" in without.value.advice
    assert not isinstance(cut.value, NoTls)


def test_a_server_that_speaks_another_tls_refuses_the_connection(
    made: Certificate, open_client: Open
):
    newer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    newer.load_cert_chain(made.chain, made.key)
    newer.minimum_version = ssl.TLSVersion.TLSv1_3
    with serve_fake(newer) as served:
        client = open_client(served.url, ca_file=str(made.authority))
        client.transport._tls_context().maximum_version = ssl.TLSVersion.TLSv1_2

        with pytest.raises(NoTls, match="refuses a TLS connection: protocol version"):
            client.health()


@pytest.mark.parametrize(
    ("reason", "why", "may_pass"),
    [
        ("TLSV1_ALERT_INTERNAL_ERROR", "internal error", True),
        ("TLSV1_UNRECOGNIZED_NAME", "unrecognized name", True),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "handshake failure", False),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "certificate required", False),
    ],
)
def test_an_alert_may_pass_unless_it_is_about_how_both_sides_are_set_up(
    reason: str, why: str, may_pass: bool
):
    """A proxy that loads its certificates refuses names that it soon knows."""
    alert = ssl.SSLError(1, "why")
    alert.reason = reason

    explained = explain_failure(alert, parse_address("https://h"))

    assert explained.detail == f"https://h refuses a TLS connection: {why}"
    assert isinstance(explained, NoTls) is not may_pass


def test_an_error_of_tls_without_a_reason_is_a_cut():
    explained = explain_failure(ssl.SSLError("closed"), parse_address("https://h"))

    assert explained.detail == "no connection to https://h: it was cut"


@pytest.mark.parametrize("key", ["a\nb", "a\r\nX-Other: 1", "späß", "a\x00"])
def test_a_value_that_is_none_of_a_header_is_refused(
    fake: FakePartita, key: str, open_client: Open
):
    with pytest.raises(BadConfiguration, match="the value of Idempotency-Key has"):
        open_client(fake.url, token=TOKEN).launch("shop", idempotency_key=key)

    assert fake.asked == []


@pytest.mark.parametrize("pages", [[[1], [2], []], [[1], [2]], [[]]])
def test_a_list_that_never_ends_is_read_once(
    fake: FakePartita, open_client: Open, pages: list[list[int]]
):
    """The last page of the server leads to itself, or to pages without entries."""
    left = list(pages)

    def answer(_fake: FakePartita, query: Any, _body: Any) -> Any:
        entries = left.pop(0) if left else []
        is_last = not left and pages[-1]
        cursor = query.get("cursor", ["0"])[0] if is_last else f"c{len(left)}"
        return 200, {"suites": entries, "nextCursor": cursor}

    fake.answers["GET /api/v1/suites"] = answer

    assert open_client(fake.url, token=TOKEN).suites() == [1, 2][: sum(map(len, pages))]
    assert len(fake.asked) <= 3


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "späß"])
def test_a_token_that_is_none_is_refused_before_it_is_sent(
    fake: FakePartita, token: str, open_client: Open
):
    with pytest.raises(BadConfiguration, match="the token has") as refused:
        open_client(fake.url, token=token)

    assert token not in str(refused.value)


def test_a_port_where_nobody_listens_says_what_to_do(open_client: Open):
    with pytest.raises(ClientError) as refused:
        open_client("http://127.0.0.1:1").health()

    assert "Connection refused" in refused.value.detail
    assert "partita up" in refused.value.advice


def test_a_file_is_downloaded_whole_or_not_at_all(
    fake: FakePartita, tmp_path: Path, open_client: Open
):
    body = bytes(range(256)) * 400
    route = f"GET /api/v1/executions/{RUN}/artifacts/report"
    fake.answers[route] = lambda *_: (200, body)
    relay = Relay(urlsplit(fake.url).port or 0, cuts=2, after_bytes=5000)
    client = open_client(f"http://127.0.0.1:{relay.port}", token=TOKEN)

    size = client.download_artifact(RUN, "report", tmp_path / "a" / "report.bin")

    relay.close()
    assert size == len(body)
    assert (tmp_path / "a" / "report.bin").read_bytes() == body
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["report.bin"]
    with pytest.raises(BadConfiguration, match="is there already"):
        client.download_artifact(RUN, "report", tmp_path / "a" / "report.bin")


def test_a_file_system_without_hard_links_takes_a_download(
    fake: FakePartita, tmp_path: Path, open_client: Open, monkeypatch
):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("partita_client.downloads.os.link", refuse)
    fake.answers[f"GET /api/v1/executions/{RUN}/artifacts/report"] = lambda *_: (200, b"ok")
    client, file = open_client(fake.url, token=TOKEN), tmp_path / "report.bin"

    assert client.download_artifact(RUN, "report", file) == 2
    assert file.read_bytes() == b"ok"
    assert list(tmp_path.glob(".*")) == []
    monkeypatch.setattr(Path, "exists", lambda _: False)  # it came while the download ran
    with pytest.raises(BadConfiguration, match="is there already"):
        client.download_artifact(RUN, "report", file)
    assert file.read_bytes() == b"ok"
