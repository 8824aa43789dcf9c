"""TLS of `mock serve`: a context from the files of its user, or from a certificate made here.

`mocks.standalone.command` imports this only where TLS is asked for.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kernel import clock
from kernel.conf import state_folder
from kernel.errors import PlatformError

# As RFC 9113 has them for HTTP/2 on TLS 1.2; those of TLS 1.3 are not set here.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
_LIFE: Final = timedelta(days=365)
_LEFT: Final = timedelta(days=14)  # with less, a new one is made
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM
_USAGES: Final = (
    "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class CertificateUnusable(PlatformError):
    code = "invalid_parameter"


class Tls:
    """What a listener needs: a context, the files, and the certificate to trust (or None)."""

    handshake_s: Final = 10  # a client may take

    def __init__(self, certificate: Path, key: Path, *, trust: Path | None = None) -> None:
        """Raise CertificateUnusable for files that are missing, or no pair."""
        self.certificate, self.key, self.trust = certificate, key, trust
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_RENEGOTIATION
        self.context.set_ciphers(_CIPHERS)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
            try:
                file.read_bytes()
            except OSError as error:
                raise CertificateUnusable(f"{option} {file}: {error.strerror}") from None
        try:
            self.context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, CertificateUnusable) as error:
            raise CertificateUnusable(_describe(error, certificate, key)) from None

    @classmethod
    def own(cls, host: str) -> Tls:
        """Return a certificate of this machine for `host`: the kept one, or a new one.

        Raise CertificateUnusable where it cannot be kept.
        """
        folder = _folder()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            pair, trust = folder / "mock-serve.pem", folder / "mock-serve.crt"
            names = _names(host)
            kept = _read_kept(pair)
            if kept is None or not _is_good(kept, names):
                kept = _make(pair, names)
            if not trust.exists() or trust.read_bytes() != kept:
                _write(trust, kept, mode=0o644)
        except OSError as error:
            detail = f"cannot keep a certificate in {folder}: {error.strerror}"
            raise CertificateUnusable(detail) from None
        return cls(pair, pair, trust=trust)


def _no_password() -> str:
    raise CertificateUnusable("encrypted")


def _describe(error: Exception, certificate: Path, key: Path) -> str:
    if isinstance(error, CertificateUnusable):
        return f"--tls-key {key}: the key is encrypted; write it without a passphrase"
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"--tls-key {key}: it is not the key of --tls-cert {certificate}"
    return f"--tls-cert {certificate}, --tls-key {key}: not a certificate and a key in PEM"


def _folder() -> Path:
    return state_folder() / "tls"


def _names(host: str) -> list[str]:
    """Return what a client may call this machine."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), host]
    return [each for each in dict.fromkeys(names) if each and each not in ("0.0.0.0", "::")]  # noqa: S104


def _read_kept(file: Path) -> bytes | None:
    """Return the certificate of a pair that this made before, in PEM."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(_PEM)
    except (FileNotFoundError, ValueError):
        return None


def _is_good(pem: bytes, names: Sequence[str]) -> bool:
    found = x509.load_pem_x509_certificate(pem)
    listed = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    is_lasting = found.not_valid_after_utc > clock.now() + _LEFT
    return is_lasting and all(_alternative(name) in listed for name in names)


def _make(file: Path, names: Sequence[str]) -> bytes:
    """Write a new pair and return its certificate, which signs nothing but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "partita mock serve")])
    now = clock.now()
    usage = x509.KeyUsage(digital_signature=True, **dict.fromkeys(_USAGES, False))
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName(map(_alternative, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(_PEM)
    )
    plain = serialization.NoEncryption()
    own_key = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain)
    _write(file, own_key + signed, mode=0o600)
    return signed


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(file: Path, content: bytes, *, mode: int) -> None:
    """Replace a file by one that only ever had this mode, and is whole."""
    handle, path = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "wb") as written:
        written.write(content)
        os.fchmod(handle, mode)
    Path(path).replace(file)
