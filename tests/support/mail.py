"""A real SMTP server (aiosmtpd) that keeps what it takes."""

from __future__ import annotations

import asyncio
import email
import email.policy
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.servers import free_port

LOGIN: Final = ("partita", "correct horse@/staple")
REFUSED: Final = "nobody@example.org"


@dataclass
class MailServer:
    """`taken`: the messages, the oldest first. `logins`: who has signed in."""

    port: int
    taken: list[EmailMessage] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - a hook of aiosmtpd
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address == REFUSED:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - a hook of aiosmtpd
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.taken.append(message)
        return "250 OK"

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        given = (data.login.decode(), data.password.decode())
        self.logins.append(given[0])
        return AuthResult(success=given == LOGIN, handled=False)


class _Controller(Controller):
    """Closes the connections of clients that broke off, which aiosmtpd leaves open."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sessions: list[SMTP] = []

    def factory(self) -> SMTP:
        session: SMTP = super().factory()
        self._sessions.append(session)
        return session

    def stop(self, no_assert: bool = False) -> None:
        self.loop.call_soon_threadsafe(self._close_sessions)
        super().stop(no_assert)

    def _close_sessions(self) -> None:
        for session in self._sessions:
            for transport in (session.transport, session._original_transport):
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()


@contextmanager
def mail_server(certificate: Path | None = None) -> Iterator[MailServer]:
    """Run one on the loopback; with a certificate, it asks for STARTTLS and LOGIN."""
    server = MailServer(port=free_port())
    options: dict[str, Any] = {}
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        options = {
            "tls_context": tls,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": server.authenticate,
        }
    controller = _Controller(server, hostname="127.0.0.1", port=server.port, **options)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()


def certificate_of_localhost(folder: Path) -> Path:
    """Return a file with a key and a certificate that nobody trusts yet."""
    file, key = folder / "localhost.pem", folder / "localhost.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", file],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + key.read_text())
    return file


def link_of(message: EmailMessage) -> str:
    found = re.search(r"^https?://\S+", str(message.get_content()), re.MULTILINE)
    assert found, message
    return found[0]
