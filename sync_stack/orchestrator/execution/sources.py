"""Where a rule's repository is, and with what it is opened (reference: sync-stack 1.5, 4.4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.platforms import Flavor, Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.events import clone_url
from sync_stack.orchestrator.derived_keys import digest_key_id
from sync_stack.orchestrator.execution.attempt import Resolve
from sync_stack.repositories import Source

_TOKEN_USERS: Final = {"github": "x-access-token", "bitbucket": "x-token-auth"}


def git_source(platform: Platform, rule: Rule | None, repo: str, resolve: Resolve) -> Source:
    """Built from the bundle only. Raises SecretError."""

    def secret(ref: SecretRef | None) -> str:
        return resolve(ref, None) if ref else ""

    password = secret(platform.token) or secret(platform.password)
    user = platform.username or _TOKEN_USERS.get(platform.kind, "oauth2")
    return Source(
        url=(rule.repo_url if rule else "") or url_of(platform, repo),
        username=user if password else "",
        password=password,
        private_key=secret(platform.ssh_private_key),
        passphrase=secret(platform.ssh_passphrase),
        known_hosts=platform.known_hosts,
        verify_ssl=platform.verify_ssl,
        ca_cert=platform.ca_cert,
        timeout_s=platform.timeout_s,
    )


def url_of(platform: Platform, repo: str) -> str:
    datacenter = platform.kind == "bitbucket" and platform.flavor is Flavor.DATACENTER
    return clone_url(platform.endpoint, f"scm/{repo}" if datacenter else repo, platform.protocol)


def rule_digest(bundle: Bundle, rule: Rule) -> str:
    """Changes when the same commit might now be written otherwise; secrets count as references."""
    known = [_plain(rule), _plain(bundle.datasource(rule.datasource)), digest_key_id()]
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    match value:
        case SecretRef():
            plain: Any = str(value)
        case Enum():
            plain = value.value
        case Mapping():
            plain = {str(key): _plain(entry) for key, entry in value.items()}
        case tuple() | list():
            plain = [_plain(entry) for entry in value]
        case _ if is_dataclass(value):
            plain = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
        case _:
            plain = value
    return plain
