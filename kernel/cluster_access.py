"""Access to the API server of a Kubernetes cluster: address, trust and credential.

From a kubeconfig (token, client certificate, exec plug-in), from values, or from the service
account of the pod that this process runs in.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kernel.exec_plugin import AccessRefused, ExecPlugin

IN_CLUSTER: Final = "https://kubernetes.default.svc"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNREADABLE: Final = (
    OSError,
    ssl.SSLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    yaml.YAMLError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Where the API is and how to be let in.

    `token` is asked anew for each request; it may read a file or run a program. `refused` is told
    when the server refuses what `token` returned. `namespace`: of the context; empty if it names
    none.
    """

    server: str
    trust: ssl.SSLContext
    token: Callable[[], str]
    refused: Callable[[], None] = lambda: None
    namespace: str = ""


def in_cluster() -> ClusterAccess:
    """Return the access of the pod's own service account. Raises AccessRefused."""
    try:
        namespace = ACCOUNT / "namespace"
        return ClusterAccess(
            server=IN_CLUSTER,
            trust=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
            token=lambda: (ACCOUNT / "token").read_text().strip(),  # it is renewed
            namespace=namespace.read_text().strip() if namespace.exists() else "",
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
    try:
        trust = _trust(ca_cert, insecure=insecure)
        if client_cert and client_key:
            _present(trust, client_cert, client_key)
    except _UNREADABLE as error:
        raise _refusal(error) from None
    return ClusterAccess(server=server.rstrip("/"), trust=trust, token=lambda: token)


def from_kubeconfig(path: Path, *, context: str = "", insecure: bool = False) -> ClusterAccess:
    """Return the access of a context, by default the current one. Raises AccessRefused."""
    try:
        return _from_kubeconfig(path, context, insecure=insecure)
    except _UNREADABLE as error:
        raise _refusal(error) from None


def _refusal(error: Exception) -> AccessRefused:
    return AccessRefused(f"no access to the Kubernetes API: {type(error).__name__}")


def _from_kubeconfig(path: Path, context_name: str, *, insecure: bool) -> ClusterAccess:
    config = yaml.safe_load(path.read_bytes())
    context = _entry_of(config["contexts"], context_name or config["current-context"])["context"]
    cluster = _entry_of(config["clusters"], context["cluster"])["cluster"]
    user = _entry_of(config["users"], context["user"])["user"]
    insecure = insecure or cluster.get("insecure-skip-tls-verify") is True
    trust = _trust(_text_of(cluster, "certificate-authority", path), insecure=insecure)
    namespace = str(context.get("namespace") or "")
    server = str(cluster["server"]).rstrip("/")
    if user.get("exec"):
        plugin = ExecPlugin(user["exec"], path, cluster)
        return ClusterAccess(
            server=server,
            trust=trust,
            token=_PluginToken(plugin, trust),
            refused=plugin.forget,
            namespace=namespace,
        )
    certificate = _text_of(user, "client-certificate", path)
    if certificate:
        _present(trust, certificate, _text_of(user, "client-key", path))
    elif not (user.get("token") or user.get("tokenFile")):
        raise LookupError("the kubeconfig's user has neither certificate nor token")
    return ClusterAccess(
        server=server, trust=trust, token=lambda: _token(user, path), namespace=namespace
    )


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


def _entry_of(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise LookupError(f"the kubeconfig has no {name!r}")


def _text_of(entry: Mapping[str, Any], name: str, config: Path) -> str:
    """Return `<name>-data` from base64, or the content of the file that `<name>` names."""
    if encoded := entry.get(f"{name}-data"):
        return base64.b64decode(encoded).decode()
    return Path(config.parent, entry[name]).read_text() if entry.get(name) else ""


def _token(user: Mapping[str, Any], config: Path) -> str:
    if user.get("tokenFile"):
        return Path(config.parent, user["tokenFile"]).read_text().strip()
    return str(user.get("token", ""))
