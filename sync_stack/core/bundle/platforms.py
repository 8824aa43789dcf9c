"""Platforms of the bundle: their fields, their kinds, and the checks of one entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from sync_stack.core.bundle.diagnostics import Diagnostics
from sync_stack.core.bundle.fields import Field, Group, ParsedFields, Table
from sync_stack.core.bundle.model import Flavor, Platform, Protocol
from sync_stack.core.bundle.secret_values import SECRET, bound
from sync_stack.core.bundle.urls import is_inner, web_base
from sync_stack.core.bundle.values import (
    HEADER,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    Checked,
    Choice,
    Duration,
    Flag,
    Text,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformKind:
    """What a platform sends unless the bundle says otherwise; names are tried in order."""

    endpoint: str
    event: tuple[str, ...]
    signature: tuple[str, ...]
    delivery: tuple[str, ...]
    push: tuple[str, ...] = ("push",)
    pull_request: tuple[str, ...] = ("pull_request",)


_BITBUCKET: Final = PlatformKind(
    endpoint="https://bitbucket.org",
    event=("X-Event-Key",),
    signature=("X-Hub-Signature",),
    delivery=("X-Request-UUID",),
    push=("repo:push",),
    pull_request=("pullrequest:*",),
)
BITBUCKET_DATACENTER: Final = PlatformKind(
    endpoint="",
    event=("X-Event-Key",),
    signature=("X-Hub-Signature",),
    delivery=("X-Request-Id",),
    push=("repo:refs_changed",),
    pull_request=("pr:*",),
)
KINDS: Final[Mapping[str, PlatformKind]] = {
    "github": PlatformKind(
        endpoint="https://github.com",
        event=("X-GitHub-Event",),
        signature=("X-Hub-Signature-256",),
        delivery=("X-GitHub-Delivery",),
    ),
    "gitlab": PlatformKind(
        endpoint="https://gitlab.com",
        event=("X-Gitlab-Event",),
        signature=("webhook-signature", "X-Gitlab-Token"),
        delivery=("webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID"),
        push=("Push Hook", "Tag Push Hook"),
        pull_request=("Merge Request Hook",),
    ),
    "gitea": PlatformKind(
        endpoint="",
        event=("X-Gitea-Event", "X-Forgejo-Event"),
        signature=("X-Forgejo-Signature", "X-Gitea-Signature"),
        delivery=("X-Gitea-Delivery", "X-Forgejo-Delivery"),
    ),
    "bitbucket": _BITBUCKET,
}

_SSH_KEY: Final = Table(
    title="platform ssh_key",
    fields=(
        Field(name="private_key", value=SECRET, required=True, words="The key itself, PEM"),
        Field(name="passphrase", value=SECRET, words="Of the key"),
    ),
)
_EVENT: Final = Text(words="an event name", pattern=r"[!-~][ -~]{0,99}")
_OWN_HEADER: Final = "see the kinds below"
PLATFORM: Final = Table(
    title="platform",
    model=Platform,
    fields=(
        Field(
            name="endpoint",
            value=Checked("URL", web_base),
            default="of the kind; required for gitea and Bitbucket data center",
            words="Base for clone URLs, and the only host that ever receives `token`. `api.` hosts "
            "and `/api/v3`, `/api/v4`, `/api/v1` are reduced to the web base",
        ),
        Field(name="tag", value=TAG, words="Suffix of the name: `github-tag`"),
        Field(name="flavor", value=Choice(Flavor, prefixes=("FLAVOR_",)), words="Bitbucket only"),
        Field(
            name="protocol",
            value=Choice(Protocol, prefixes=("PROTOCOL_",)),
            words="Form of clone URLs",
        ),
        Field(name="secret", value=SECRET, words="Webhook key; required in production"),
        Field(
            name="secret_previous",
            value=SECRET,
            words="Accepted beside `secret` during a rotation",
        ),
        Field(
            name="signing_secret",
            value=SECRET,
            words="GitLab's signing token, `whsec_…`; a `secret` that begins so is taken as one",
        ),
        Field(name="token", value=SECRET, words="Access token for cloning"),
        Field(name="username", value=TEXT, words="Of the clone credentials"),
        Field(name="password", value=SECRET, words="Of the clone credentials"),
        Field(name="ssh_key", value=Group(_SSH_KEY), words="`private_key`* and `passphrase`"),
        Field(name="known_hosts", value=TEXT, words="Host keys; an unknown host fails"),
        Field(name="verify_ssl", value=Flag(), words="false warns `risky_setting`"),
        Field(name="ca_cert", value=TEXT, words="Path or PEM"),
        Field(
            name="timeout",
            value=Duration(low=1, high=600),
            into="timeout_s",
            words="Limit of one Git network operation",
        ),
        Field(
            name="event_type_header",
            value=HEADER,
            default=_OWN_HEADER,
            words="Header that names the event",
        ),
        Field(
            name="git_scm_signature",
            value=HEADER,
            default=_OWN_HEADER,
            words="Header of the signature",
        ),
        Field(
            name="delivery_header",
            value=HEADER,
            default=_OWN_HEADER,
            words="Header of the delivery id",
        ),
        Field(
            name="push_event_name",
            value=_EVENT,
            default=_OWN_HEADER,
            words="A trailing `*` matches a prefix",
        ),
        Field(
            name="pr_event_name",
            value=_EVENT,
            default=_OWN_HEADER,
            words="A trailing `*` matches a prefix",
        ),
        Field(
            name="org_name",
            value=Text(words="an owner", pattern=r"[A-Za-z0-9._~-][A-Za-z0-9._/~-]*"),
            words="Put before repository patterns without `/`",
        ),
        Field(name="max_retries", value=Whole(), no_effect=True, words="No effect"),
        Field(name="page_size", value=Whole(), no_effect=True, words="No effect"),
        Field(name="secret_manager", value=OPTIONAL_TEXT, words="Holds `ref` secrets of the entry"),
    ),
)
_NAMED: Final = {  # field of the table -> field of PlatformKind
    "event_type_header": "event",
    "git_scm_signature": "signature",
    "delivery_header": "delivery",
    "push_event_name": "push",
    "pr_event_name": "pull_request",
}


def build_platform(
    kind: str,
    name: str,
    given: ParsedFields,
    findings: Diagnostics,
    *,
    manager: str,
    production: bool,
) -> Platform | None:
    """None when something required is wrong; `manager` holds its `ref` secrets."""
    values = dict(given.values)
    for word in ("org_name", "secret_manager"):
        values.pop(word, None)
    facts = _kind_facts(kind, given, findings)
    values.setdefault("endpoint", facts.endpoint)
    if key := values.pop("ssh_key", None):
        values |= {f"ssh_{name}": secret for name, secret in key.values.items()}
    for word, fact in _NAMED.items():
        values[word] = (values[word],) if word in values else getattr(facts, fact)
    _check_credentials(given, findings)
    _check_endpoint(values, given, findings, production=production)
    if production and not given.has("secret") and not given.has("signing_secret"):
        message = "a webhook secret is required in production"
        findings.error(given.at("secret"), "production_requirement", message)
    if not given.complete or not values["endpoint"]:
        return None
    values = {word: bound(value, manager) for word, value in values.items()}
    return Platform(name=name, kind=kind, place=given.spot.place, **values)


def _kind_facts(kind: str, given: ParsedFields, findings: Diagnostics) -> PlatformKind:
    if kind != "bitbucket" and given.has("flavor"):
        findings.warn(given.at("flavor"), "no_effect", f"{kind} has no flavors")
    if kind != "gitlab" and given.has("signing_secret"):
        findings.warn(given.at("signing_secret"), "no_effect", f"{kind} has no signing secret")
    if kind == "bitbucket" and given.get("flavor") is Flavor.DATACENTER:
        return BITBUCKET_DATACENTER
    return KINDS[kind]


def _check_credentials(given: ParsedFields, findings: Diagnostics) -> None:
    if given.has("token") and given.has("password"):
        findings.error(
            given.at("password"), "mutually_exclusive", "token and password are two ways to clone"
        )
    if given.has("password") and not given.has("username"):
        findings.error(given.at("username"), "missing_field", "password needs username")
    if given.get("protocol") is Protocol.SSH:
        for word in ("ssh_key", "known_hosts"):
            if not given.has(word):
                findings.error(given.at(word), "missing_field", f"ssh needs {word}")
    if given.get("verify_ssl") is False:
        findings.warn(given.at("verify_ssl"), "risky_setting", "certificates are not verified")


def _check_endpoint(
    values: dict[str, Any], given: ParsedFields, findings: Diagnostics, *, production: bool
) -> None:
    spot = given.at("endpoint")
    if not values["endpoint"]:
        if not given.has("endpoint"):
            findings.error(spot, "missing_field", "endpoint is required")
        return
    if not production:
        return
    parts = urlsplit(values["endpoint"])
    plain = parts.scheme == "http" or given.get("protocol") is Protocol.HTTP
    if parts.scheme == "file":
        findings.error(spot, "production_requirement", "file:// is not allowed in production")
    elif plain and not is_inner(parts.hostname or ""):
        message = "http is allowed in production only to private addresses"
        findings.error(spot, "production_requirement", message)
