"""An engine's socket behind TLS that asks for a client's certificate, as a remote engine has it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Pair:
    """PEM texts."""

    certificate: str
    key: str


class Authority:
    """Signs for one test."""

    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = _signed(self._name, self._name, self._key, self._key, is_authority=True)
        self.pem = _pem(self._certificate)

    def pair(self, name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(_name(name), self._name, key, self._key)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Pair(_pem(certificate), text)


@asynccontextmanager
async def behind_tls(socket: str, authority: Authority, folder: Path) -> AsyncGenerator[str]:
    """`socket`: a path. Yields `https://…`; ends with every connection."""
    serving: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve(socket, reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(
        serve,
        _LOOPBACK,
        0,
        ssl=_server_context(authority, folder),
    )
    async with server:
        yield f"https://{_LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def _server_context(authority: Authority, folder: Path) -> ssl.SSLContext:
    pair = authority.pair("engine")
    file = folder / "engine.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(file)
    return context


async def _serve(socket: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
    copies = [_copy(reader, inner_writer), _copy(inner_reader, writer)]
    tasks = [asyncio.create_task(copy) for copy in copies]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for each in (writer, inner_writer):
            each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address(_LOOPBACK))
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(by, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


@contextlib.contextmanager
def behind_tls_aside(socket: str, authority: Authority, folder: Path) -> Iterator[str]:
    """The same on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = behind_tls(socket, authority, folder)
    try:
        yield asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(10)
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
