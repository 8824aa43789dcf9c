"""Certificates of a small authority, made for one test."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kernel.clock import now
from sync_stack.rpc.tls import TlsFiles


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.crt"
        certificate = self._signed(self._name, self._key.public_key(), ca=True)
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def pair(self, name: str, *, days: int = 1, ca: Path | None = None) -> TlsFiles:
        """For `name`, localhost and 127.0.0.1; with negative days already expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key.public_key(), names=(name, "localhost"), days=days)
        files = TlsFiles(
            cert=self.folder / f"{name}.crt", key=self.folder / f"{name}.key", ca=ca or self.file
        )
        files.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _signed(self, subject, public, *, names=(), days=1, ca=False) -> x509.Certificate:
        begin = now() - timedelta(days=10)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(now() + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            alternatives = [x509.DNSName(name) for name in names]
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())
