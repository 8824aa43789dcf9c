"""`mock serve` with TLS as a process: certificates, HTTP/2, gRPC, and what wrong files get."""

from __future__ import annotations

import shlex
import ssl
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.apps.mocks.test_served_files import EXAMPLES, OPENAPI
from tests.integration.test_mock_serve import Served, ended
from tests.support.files import write_files
from tests.sync.gateway.certificates import Authority

pytestmark = pytest.mark.slow
PROTO = """
syntax = "proto3";
package pets;
message Asked {}
message Pet { string name = 1; }
service Pets { rpc Get(Asked) returns (Pet); }
"""
Serve = Callable[..., Served]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    files = {
        "suite.star": "", "api/pets.yaml": OPENAPI, "mock/pets/listPets.yaml": EXAMPLES,
        "api/rpc.proto": PROTO,
    }  # fmt: skip
    return write_files(tmp_path / "shop", files)


@pytest.fixture
def serve(tmp_path: Path, shop: Path) -> Iterator[Serve]:
    made: list[Served] = []

    def start(*words: str) -> Served:
        made.append(Served(tmp_path, str(shop), "--port", "0", "-o", "json", *words))
        return made[-1]

    yield start
    for each in made:
        each.end()


def shown(facts: dict[str, Any]) -> bytes:
    """The certificate that the server shows."""
    host, _, port = facts["https"].removeprefix("https://").rpartition(":")
    return ssl.get_server_certificate((host, int(port))).encode()


def test_https_is_served_beside_http_and_both_speak_http_2(serve: Serve, tmp_path: Path):
    served = serve("--https-port", "0")
    facts = served.facts()
    certificate = Path(facts["certificate"])
    assert certificate.parent == tmp_path / "home" / ".local" / "state" / "partita" / "tls"
    assert (certificate.parent / "mock-serve.pem").stat().st_mode & 0o777 == 0o600
    assert certificate.parent.stat().st_mode & 0o777 == 0o700
    assert b"PRIVATE" not in certificate.read_bytes()
    path = "/mocks/rest/shop/pets/pets"
    trusting = ssl.create_default_context(cafile=str(certificate))
    for version in ("HTTP/1.1", "HTTP/2"):
        with httpx.Client(verify=trusting, http2=version == "HTTP/2") as client:
            port = facts["https"].rpartition(":")[2]
            for url in (facts["https"], f"https://localhost:{port}"):
                answer = client.get(url + path)
                assert (answer.http_version, answer.json()) == (version, [{"name": "Rex"}])
    plain = ["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version}"]
    told = subprocess.run([*plain, facts["url"] + path], capture_output=True, check=True).stdout
    assert told.endswith(b"]2")

    found = x509.load_pem_x509_certificate(shown(facts))
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (found.not_valid_after_utc - datetime.now(UTC)).days in range(360, 366)
    served.end()
    again = serve("--https-port", "0")
    assert shown(again.facts()) == found.public_bytes(serialization.Encoding.PEM)
    assert again.err.read_text() == ""


def test_with_tls_alone_nothing_is_plain(serve: Serve):
    served = serve("--tls", "--grpc-port", "0")
    facts = served.facts()
    assert facts["url"] == facts["https"]
    words = shlex.split(facts["curl"])
    assert words[1:3] == ["--cacert", facts["certificate"]]
    told = subprocess.run([*words, "-sS"], capture_output=True, check=True).stdout
    assert told.startswith(b"HTTP/2 200")

    known = grpc.ssl_channel_credentials(Path(facts["certificate"]).read_bytes())
    with grpc.secure_channel(facts["grpc"], known) as channel:
        assert "pets.Pets" in ProtoReflectionDescriptorDatabase(channel).get_services()
    address = facts["https"].removeprefix("https://")
    unsafe = ["curl", "-sS", f"http://{address}/"]
    plain = subprocess.run(unsafe, capture_output=True, check=False)
    assert plain.returncode
    assert not plain.stdout
    for version, is_spoken in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
        asked = ["openssl", "s_client", "-connect", address, version, "-alpn", "h2"]
        asked += ["-cipher", "ALL:@SECLEVEL=0"] if version == "-tls1_1" else []
        seen = subprocess.run(asked, input=b"", capture_output=True, check=False)
        assert (b"ALPN protocol: h2" in seen.stdout) == is_spoken, version
    assert served.err.read_text() == ""


def test_a_certificate_that_is_broken_or_for_other_names_is_made_anew(serve: Serve):
    first = serve("--tls")
    facts = first.facts()
    pair = Path(facts["certificate"]).with_name("mock-serve.pem")
    old = shown(facts)
    first.end()
    pair.write_text("scrambled")
    second = serve("--tls")
    new = shown(second.facts())
    assert new != old
    second.end()
    third = serve("--tls", "--host", "127.0.0.2")
    assert shown(third.facts()) != new


def test_files_of_the_user_are_shown_or_refused_in_one_line(
    serve: Serve, tmp_path: Path, shop: Path
):
    authority = Authority(tmp_path)
    one, other = authority.pair("one"), authority.pair("other")
    cert, key = str(one.cert), str(one.key)
    facts = (served := serve("--tls-cert", cert, "--tls-key", key)).facts()
    assert "certificate" not in facts
    assert shown(facts) == Path(cert).read_bytes()

    locked = tmp_path / "locked.key"
    secret = serialization.BestAvailableEncryption(b"word")
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(pem, form, secret))
    missing = str(tmp_path / "no.key")
    taken = facts["https"].rpartition(":")[2]
    for words, code, told in (
        (["--tls-cert", cert], 2, "error usage: --tls-cert and --tls-key need each other"),
        (["--tls-cert", cert, "--tls-key", missing], 1, f"--tls-key {missing}: No such file"),
        (["--tls-cert", cert, "--tls-key", str(other.key)], 1, "is not the key of"),
        (["--tls-cert", key, "--tls-key", key], 1, "not a certificate and a key in PEM"),
        (["--tls-cert", cert, "--tls-key", str(locked)], 1, "the key is encrypted"),
        (["--https-port", taken], 5, "choose another one with --https-port"),
    ):
        refused = ended(str(shop), "--port", "0", *words)
        assert (refused.returncode, refused.stdout) == (code, "")
        [line] = refused.stderr.splitlines()
        assert line.startswith("error ")
        assert told in line
    assert served.process.poll() is None
