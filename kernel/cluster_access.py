"""Access to the API server of a Kubernetes cluster: address, trust and credential.

From a kubeconfig (token, client certificate, exec plug-in), from values, or from the service
account of the pod that this process runs in.
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from kernel import clock
from kernel.exec_plugin import AccessRefused, ExecPlugin

IN_CLUSTER: Final = "https://kubernetes.default.svc"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNREADABLE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Where the API is and how to be let in.

    `token` is asked anew for each request; it may read a file or run a program, and raises
    AccessRefused. `refused` is told when the server refuses what `token` returned. `namespace`: of
    the context; empty if it names none. `credential` and `advice` are for people: what lets
    Partita in, and what to do if it does not.
    """

    server: str
    trust: ssl.SSLContext
    token: Callable[[], str]
    refused: Callable[[], None] = lambda: None
    namespace: str = ""
    credential: str = "the credential"
    advice: str = "use another one"

    def refusal(self, token: str) -> str:
        """Return what the server refused, since when it is too old if it says so, and the advice.

        `token`: what was sent; empty for a certificate.
        """
        ended_at = _end_of(token)
        is_over = ended_at is not None and ended_at <= clock.now()
        since = f", which expired at {clock.rfc3339(ended_at)}" if ended_at and is_over else ""
        return f"the API server refuses {self.credential}{since}: {self.advice}"


def _end_of(token: str) -> datetime | None:
    """Return when a token of the form JWT expires; None for another one."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - header, claims, signature
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (*_UNREADABLE, binascii.Error, OverflowError):
        return None


def in_cluster() -> ClusterAccess:
    """Return the access of the pod's own service account. Raises AccessRefused."""
    try:
        namespace = ACCOUNT / "namespace"
        return ClusterAccess(
            server=IN_CLUSTER,
            trust=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
            token=lambda: _read(ACCOUNT / "token").strip(),  # it is renewed
            namespace=namespace.read_text().strip() if namespace.exists() else "",
            credential="the token of this pod's service account",
            advice="if the account was created again, start the pod again",
        )
    except _UNREADABLE as error:
        raise _refusal(error) from None


def access_by_values(
    server: str,
    *,
    token: str = "",
    ca_cert: str = "",
    client_cert: str = "",
    client_key: str = "",
    insecure: bool = False,
) -> ClusterAccess:
    """Return the access with these values; certificates and keys are paths or PEM texts.

    Without `ca_cert` the system's roots count. Raises AccessRefused.
    """
    has_certificate = bool(client_cert and client_key)
    try:
        trust = _trust(ca_cert, insecure=insecure)
        if has_certificate:
            _present(trust, client_cert, client_key)
    except _UNREADABLE as error:
        raise _refusal(error) from None
    return ClusterAccess(
        server=server.rstrip("/"),
        trust=trust,
        token=lambda: token,
        credential="the client certificate" if has_certificate and not token else "the token",
        advice="set a new one (kubectl create token ACCOUNT makes a token)",
    )


def from_kubeconfig(path: Path, *, context: str = "", insecure: bool = False) -> ClusterAccess:
    """Return the access of a context, by default the current one. Raises AccessRefused."""
    try:
        config = yaml.safe_load(_read(path))
    except yaml.YAMLError:  # its words may quote a secret
        raise _access_refusal("the kubeconfig is not valid YAML") from None
    if not isinstance(config, Mapping):
        raise _access_refusal("the kubeconfig is empty, or no kubeconfig")
    try:
        return _access_of(_context_of(config, context), config, path, insecure=insecure)
    except _UNREADABLE as error:
        raise _refusal(error) from None


def _refusal(error: Exception) -> AccessRefused:
    return _access_refusal(type(error).__name__)


def _access_refusal(why: str) -> AccessRefused:
    return AccessRefused(f"no access to the Kubernetes API: {why}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise _access_refusal(f"{path} cannot be read: {error.strerror}") from None


def _context_of(config: Entry, name: str) -> Entry:
    """Return the context of this name, or the current one. Raises AccessRefused."""
    known = _names_of(config.get("contexts"))
    name = name or str(config.get("current-context") or "")
    if not name:
        raise _access_refusal(f"the kubeconfig has no current context: name one of {known}")
    if (entry := _entry_of(config.get("contexts"), name)) is None:
        raise _access_refusal(f"the kubeconfig has no context {name!r}: it has {known}")
    return {**entry["context"], "name": name}


def _part_of(config: Entry, context: Entry, kind: str) -> Entry:
    """Return the cluster or the user that a context names. Raises AccessRefused."""
    name = str(context.get(kind) or "")
    if (entry := _entry_of(config.get(f"{kind}s"), name)) is None:
        raise _access_refusal(
            f"the context {context['name']!r} of the kubeconfig names the {kind} {name!r}, "
            f"which is not in it: it has {_names_of(config.get(f'{kind}s'))}"
        )
    return dict(entry[kind])


def _access_of(context: Entry, config: Entry, path: Path, *, insecure: bool) -> ClusterAccess:
    cluster = _part_of(config, context, "cluster")
    user = _part_of(config, context, "user")
    insecure = insecure or cluster.get("insecure-skip-tls-verify") is True
    trust = _trust(_text_of(cluster, "certificate-authority", path), insecure=insecure)
    namespace = str(context.get("namespace") or "")
    server = str(cluster["server"]).rstrip("/")
    whose = f"the user {context['user']!r} of the kubeconfig"
    if user.get("exec"):
        plugin = ExecPlugin(user["exec"], path, cluster)
        return ClusterAccess(
            server=server,
            trust=trust,
            token=_PluginToken(plugin, trust),
            refused=plugin.forget,
            namespace=namespace,
            credential=f"what the exec plug-in {plugin.name} printed",
            advice="sign in to its provider, and give that account access to the cluster",
        )
    has_token = bool(user.get("token") or user.get("tokenFile"))
    if certificate := _text_of(user, "client-certificate", path):
        _present_of(user, certificate, path, trust, whose)
    elif not has_token:
        raise _access_refusal(f"{whose} has no token, client certificate or exec plug-in")
    return ClusterAccess(
        server=server,
        trust=trust,
        token=lambda: _token(user, path),
        namespace=namespace,
        credential=f"the {'token' if has_token else 'client certificate'} of {whose}",
        advice="put a new one into the file"
        + ("" if has_token else " (openssl x509 -noout -enddate says when it ended)"),
    )


def _present_of(
    user: Entry, certificate: str, path: Path, trust: ssl.SSLContext, whose: str
) -> None:
    """Raises AccessRefused if certificate and key are none, or not of each other."""
    key = _text_of(user, "client-key", path)
    try:
        _present(trust, certificate, key)
    except (OSError, ValueError):  # an ssl.SSLError is an OSError
        raise _access_refusal(f"the client certificate or key of {whose} cannot be used") from None


class _PluginToken:
    """The token that a plug-in prints; a new certificate counts for connections opened later."""

    def __init__(self, plugin: ExecPlugin, trust: ssl.SSLContext) -> None:
        self._plugin = plugin
        self._trust = trust
        self._presented = ""

    def __call__(self) -> str:
        found = self._plugin.credential()
        if found.certificate and found.certificate != self._presented:
            try:
                _present(self._trust, found.certificate, found.key)
            except (OSError, ssl.SSLError):
                message = "the exec plug-in printed a certificate that cannot be read"
                raise AccessRefused(message) from None
            self._presented = found.certificate
        return found.token


def _trust(ca_cert: str, *, insecure: bool) -> ssl.SSLContext:
    pem = ca_cert if "-----BEGIN" in ca_cert else None
    path = ca_cert if ca_cert and not pem else None
    trust = ssl.create_default_context(cafile=path, cadata=pem)
    if insecure:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def _present(trust: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a client pair of paths or PEM texts; texts touch the disk only while they are read."""
    with tempfile.TemporaryDirectory(prefix="partita-") as folder:
        paths = [Path(folder) / name for name in ("cert.pem", "key.pem")]
        for path, text in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_text(text if "-----BEGIN" in text else Path(text).read_text())
        trust.load_cert_chain(*map(str, paths))


def _entry_of(entries: Iterable[Entry] | None, name: str) -> Entry | None:
    return next((each for each in entries or () if each["name"] == name), None)


def _names_of(entries: Iterable[Entry] | None) -> str:
    return ", ".join(sorted(str(each["name"]) for each in entries or ())) or "none"


def _text_of(entry: Entry, name: str, config: Path) -> str:
    """Return `<name>-data` from base64, or the content of the file that `<name>` names."""
    if encoded := entry.get(f"{name}-data"):
        return base64.b64decode(encoded).decode()
    return _read(Path(config.parent, entry[name])) if entry.get(name) else ""


def _token(user: Entry, config: Path) -> str:
    if user.get("tokenFile"):
        return _read(Path(config.parent, user["tokenFile"])).strip()
    return str(user.get("token", ""))
