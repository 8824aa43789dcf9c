"""The runner's service account of the manifests in a namespace of its own, and its kubeconfigs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kernel import clock
from tests.support.cluster_commands import kubectl, server_of
from tests.support.manifests import BASE
from tests.support.parts import need_cluster
from worker.runtimes.kubernetes.rights import RIGHTS, Right

ACCOUNT: Final = "partita-runner"
PLUGIN_VERSION: Final = "client.authentication.k8s.io/v1"
_ISSUER: Final = "https://kubernetes.default.svc"
Document = dict[str, Any]


class Account:
    """The account, its Role and its binding, in a namespace of its own."""

    def __init__(self) -> None:
        self.namespace = f"partita-account-{secrets.token_hex(3)}"

    @property
    def user(self) -> str:
        """Return the name of a user with a client certificate, whom the Role is bound to, too."""
        return f"{ACCOUNT}-{self.namespace}"

    def create(self) -> None:
        kubectl("create", "namespace", self.namespace)
        self.kubectl("create", "serviceaccount", ACCOUNT)
        self.grant(RIGHTS)
        binding = ("--role", ACCOUNT, "--serviceaccount", f"{self.namespace}:{ACCOUNT}")
        self.kubectl("create", "rolebinding", ACCOUNT, *binding, "--user", self.user)

    def remove(self) -> None:
        kubectl("delete", "namespace", self.namespace, "--wait=false")

    def kubectl(self, *words: str, text: str = "") -> str:
        return kubectl("--namespace", self.namespace, *words, text=text)

    def grant(self, rights: Sequence[Right]) -> None:
        rules = [{"apiGroups": [""], "resources": [r.resource], "verbs": [r.verb]} for r in rights]
        role = yaml.safe_load((BASE / "role.yaml").read_text())
        role["metadata"] = {"name": ACCOUNT, "namespace": self.namespace}
        self.kubectl("apply", "-f", "-", text=json.dumps({**role, "rules": rules}))

    def token(self) -> str:
        return self.kubectl("create", "token", ACCOUNT).strip()


@dataclass(frozen=True)
class Signer:
    """Signs as the tests' own cluster does, by its keys, whatever is to be signed."""

    keys: Path

    @staticmethod
    def of_cluster() -> Signer:
        """Return that of the tests' cluster; of another one, whose keys nobody has, skip."""
        keys = Path(need_cluster()).parent / "pki"
        if not (keys / "accounts.key").exists():
            pytest.skip("needs the keys of the cluster: one that these tests start")
        return Signer(keys)

    def token(self, account: Account, *, until: timedelta) -> str:
        """Return a token of the account; `until`: from now on, negative for an expired one."""
        subject = f"system:serviceaccount:{account.namespace}:{ACCOUNT}"
        now = clock.now()
        uid = account.kubectl("get", "serviceaccount", ACCOUNT, "-o", "jsonpath={.metadata.uid}")
        claims = {
            "iss": _ISSUER,
            "aud": [_ISSUER],
            "sub": subject,
            "iat": now - timedelta(hours=2),
            "nbf": now - timedelta(hours=2),
            "exp": now + until,
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": ACCOUNT, "uid": uid},
            },
        }
        return jwt.encode(claims, (self.keys / "accounts.key").read_text(), algorithm="RS256")

    def certificate(self, user: str, *, until: timedelta) -> tuple[str, str]:
        """Return a client certificate of this user and its key, as PEM texts."""
        authority = x509.load_pem_x509_certificate((self.keys / "ca.crt").read_bytes())
        authority_key = serialization.load_pem_private_key(
            (self.keys / "ca.key").read_bytes(), password=None
        )
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
            .not_valid_after(clock.now() + until)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(authority_key, hashes.SHA256())  # type: ignore[arg-type]
        )
        return (
            made.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )


class Kubeconfig:
    """A kubeconfig in a folder of the operator's own: a context for each user, named alike."""

    def __init__(self, folder: Path, namespace: str) -> None:
        self._folder = folder
        self._folder.mkdir(mode=0o700)
        self._namespace = namespace
        self.path = folder / "config"
        server, authority = server_of()
        (folder / "ca.crt").write_text(authority)
        self.cluster: Document = {"server": server, "certificate-authority": "ca.crt"}
        self.users: dict[str, Document] = {}

    def add(self, name: str, user: Document) -> None:
        """Add a user and its context; the first one's is the current context."""
        self.users[name] = user
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": self.cluster}],
            "users": [{"name": each, "user": about} for each, about in self.users.items()],
            "contexts": [{"name": each, "context": self._context(each)} for each in self.users],
            "current-context": next(iter(self.users)),
        }
        self.path.write_text(yaml.safe_dump(document))
        self.path.chmod(0o600)

    def _context(self, user: str) -> Document:
        return {"cluster": "tests", "user": user, "namespace": self._namespace}

    def add_plugin(self, name: str, script: str) -> None:
        """Add a user whose credential the script prints; its program is `./NAME`."""
        program = self._folder / name
        program.write_text(script)
        program.chmod(0o700)
        self.add(name, {"exec": {"apiVersion": PLUGIN_VERSION, "command": f"./{name}"}})

    def add_certificate(self, name: str, pair: tuple[str, str]) -> None:
        """Add a user whose certificate and key are files beside the kubeconfig."""
        for kind, text in zip(("crt", "key"), pair, strict=True):
            (self._folder / f"{name}.{kind}").write_text(text)
        self.add(name, {"client-certificate": f"{name}.crt", "client-key": f"{name}.key"})


def printing(**status: str) -> str:
    """Return a script of an exec plug-in that prints an ExecCredential of this status."""
    credential = {"apiVersion": PLUGIN_VERSION, "kind": "ExecCredential", "status": status}
    return f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n"
