"""A small certificate authority: who it says belongs to this stack, and until when."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sync_stack.rpc.tls import TlsPair, TlsUnreadable, certificate

LIFE: Final = timedelta(days=365)
ORGANIZATION: Final = "Partita, made at a first start"
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM


class CertificateUsage(Enum):
    """What a certificate may be shown for."""

    SERVER = ExtendedKeyUsageOID.SERVER_AUTH
    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def read(cls, pair: TlsPair) -> Authority:
        """Raises TlsUnreadable for a pair that signs nothing."""
        try:
            key = serialization.load_pem_private_key(pair.key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise TlsUnreadable(f"no private key: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TlsUnreadable("the key of the authority is none on an elliptic curve")
        return cls(certificate(pair.cert), key)

    @staticmethod
    def create(now: datetime) -> TlsPair:
        """Return the pair of a new authority, valid for a year."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"authority {x509.random_serial_number() % 2**32:08x}")  # told from the next
        built = _builder(name, name, key.public_key(), now, now + LIFE, usage=None)
        return _as_pair(built.sign(key, hashes.SHA256()), key)

    def pair(self, names: Sequence[str], usage: CertificateUsage, now: datetime) -> TlsPair:
        """For the first of the names and the others; it does not outlive the authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + LIFE, self.certificate.not_valid_after_utc)
        issuer = self.certificate.subject
        built = _builder(_name(names[0]), issuer, key.public_key(), now, end, usage=usage)
        issuing = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        built = built.add_extension(_alternatives(names), critical=False)
        built = built.add_extension(issuing, critical=False)
        return _as_pair(built.sign(self.key, hashes.SHA256()), key)


def self_signed(names: Sequence[str], now: datetime) -> TlsPair:
    """Return a pair for a listener whose callers trust exactly this certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(names[0])
    built = _builder(name, name, key.public_key(), now, now + LIFE, usage=CertificateUsage.SERVER)
    built = built.add_extension(_alternatives(names), critical=False)
    return _as_pair(built.sign(key, hashes.SHA256()), key)


def still_valid(pem: bytes, now: datetime) -> list[bytes]:
    """The certificates of a trust root that have not expired, one by one."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except (ValueError, UnsupportedAlgorithm):
        return []
    return [each.public_bytes(_PEM) for each in found if each.not_valid_after_utc > now]


def is_ours(found: x509.Certificate) -> bool:
    """Made here, so that it may be replaced here."""
    issuer = found.issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return any(each.value == ORGANIZATION for each in issuer)


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    end: datetime,
    *,
    usage: CertificateUsage | None,
) -> x509.CertificateBuilder:
    """Return the builder of a certificate: with `usage` None that of an authority."""
    is_authority = usage is None
    basic = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _CLOCKS_DIFFER)
        .not_valid_after(end)
        .add_extension(basic, critical=True)
        .add_extension(_key_usage(signs=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    if usage is None:
        return builder
    return builder.add_extension(x509.ExtendedKeyUsage([usage.value]), critical=False)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_alternative(name) for name in names])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _as_pair(signed: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> TlsPair:
    plain = serialization.NoEncryption()
    return TlsPair(
        cert=signed.public_bytes(_PEM),
        key=key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain),
    )
