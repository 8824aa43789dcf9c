"""Exec plug-ins of a kubeconfig: a program that prints an ExecCredential (EKS, GKE).

The program is started only if the kubeconfig is the operator's own: nobody else may write the
file or its folder, and it does not lie where a file sink writes what Git holds.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from kernel import clock
from kernel.conf import plugin_environment

_VERSIONS: Final = frozenset(
    {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}
)
PLUGIN_S: Final = 10.0  # how long a plug-in may take
_EARLY: Final = timedelta(seconds=10)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_RUN_BY_HAND: Final = "run it as the user of this process to see what it says"


class AccessRefused(Exception):
    """There is no usable access to the API; the message holds no secret."""


class AccessTimeout(AccessRefused):
    """A plug-in did not end in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """What a plug-in printed; `expires_at` None: until the API server refuses it."""

    token: str
    certificate: str
    key: str
    expires_at: datetime | None


class ExecPlugin:
    """The credential of one plug-in for several threads; it runs again when that expires."""

    def __init__(
        self, config: Mapping[str, Any], kubeconfig: Path, cluster: Mapping[str, Any]
    ) -> None:
        refuse_foreign(kubeconfig)
        version = config["apiVersion"]
        if version not in _VERSIONS:
            raise AccessRefused(
                f"the exec plug-in's apiVersion must be one of {', '.join(sorted(_VERSIONS))}"
            )
        self._version = str(version)
        self.name = str(config["command"])
        is_path = "/" in self.name
        command = str(Path(kubeconfig.parent, self.name)) if is_path else self.name
        self._command = [command, *map(str, config.get("args") or ())]
        self._hint = str(config.get("installHint") or f"install {self.name}, or write its path")
        self._variables = {str(e["name"]): str(e["value"]) for e in config.get("env") or ()}
        self._cluster = dict(cluster) if config.get("provideClusterInfo") is True else None
        self._lock = threading.Lock()
        self._credential: ExecCredential | None = None

    def credential(self) -> ExecCredential:
        """Return the credential; run the plug-in if there is none or it expires.

        Raises AccessRefused, AccessTimeout.
        """
        with self._lock:
            known = self._credential
            if known is None or (known.expires_at and clock.now() >= known.expires_at - _EARLY):
                known = self._credential = self._parse(self._run())
            return known

    def forget(self) -> None:
        """Run the plug-in again for the next request: the server refused the credential."""
        with self._lock:
            self._credential = None

    def _run(self) -> bytes:
        spec: dict[str, object] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        try:
            ended = subprocess.run(  # noqa: S603 - the operator's own, see refuse_foreign
                self._command,
                env=plugin_environment()
                | self._variables
                | {"KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it may hold a secret
                timeout=PLUGIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise AccessTimeout(
                f"the exec plug-in {self.name} did not end within {PLUGIN_S:g} s: it may wait for "
                "somebody to sign in; do so first"
            ) from None
        except FileNotFoundError:
            message = f"the exec plug-in {self.name} is not there: {self._hint}"
            raise AccessRefused(message) from None
        except (OSError, ValueError) as error:
            message = f"the exec plug-in {self.name} cannot be started: {type(error).__name__}"
            raise AccessRefused(message) from None
        if ended.returncode:
            raise AccessRefused(
                f"the exec plug-in {self.name} ended with code {ended.returncode}: {_RUN_BY_HAND}"
            )
        return ended.stdout

    def _parse(self, printed: bytes) -> ExecCredential:
        try:
            found = _credential(json.loads(printed), self._version)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise AccessRefused(
                f"the exec plug-in {self.name} did not print an ExecCredential of {self._version}, "
                f"the apiVersion in the kubeconfig: {_RUN_BY_HAND}"
            ) from None
        if not found.token and not (found.certificate and found.key):
            raise AccessRefused(
                f"the exec plug-in {self.name} printed neither a token nor a certificate with its "
                f"key: {_RUN_BY_HAND}"
            )
        return found


def _credential(made: Mapping[str, Any], version: str) -> ExecCredential:
    if made["kind"] != "ExecCredential" or made["apiVersion"] != version:
        raise ValueError("not the ExecCredential that was asked for")
    status = made["status"]
    expires = status.get("expirationTimestamp")
    expires_at = datetime.fromisoformat(expires) if expires else None
    if expires_at is not None and expires_at.tzinfo is None:
        raise ValueError("a time without a zone")
    return ExecCredential(
        token=str(status.get("token") or ""),
        certificate=str(status.get("clientCertificateData") or ""),
        key=str(status.get("clientKeyData") or ""),
        expires_at=expires_at,
    )


def refuse_foreign(kubeconfig: Path) -> None:
    """Raise AccessRefused unless only the operator can have written the kubeconfig."""
    path = kubeconfig.resolve(strict=True)
    if any((folder / ".partita").exists() for folder in path.parents):
        raise AccessRefused(
            "an exec plug-in is not run from a kubeconfig that a file sink may write"
        )
    for place in (path, path.parent):
        found = place.stat()
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & _OTHERS_WRITE:
            raise AccessRefused(
                "an exec plug-in is not run from a kubeconfig that others may write: "
                f"take that right away (chmod go-w {place})"
            )
