"""Platforms of the bundle: Git hosts, their kinds, and the checks of one entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import ClassVar, Final
from urllib.parse import urlsplit

from kernel.registry import Registry
from sync_stack.core.bundle.diagnostics import Location
from sync_stack.core.bundle.fields import (
    REQUIRED,
    BundleField,
    FieldTable,
    ParsedFields,
    group,
    input_only,
    no_effect,
    option,
    table_of,
)
from sync_stack.core.bundle.secrets import SECRET, SecretRef
from sync_stack.core.bundle.urls import is_inner, web_base
from sync_stack.core.bundle.values import (
    COUNT,
    FLAG,
    HEADER,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    choice,
    duration,
    only,
    parsed_text,
    text,
)


class Flavor(StrEnum):
    """Which Bitbucket."""

    CLOUD = "cloud"
    DATACENTER = "datacenter"


class Protocol(StrEnum):
    """The form of clone URLs."""

    HTTPS = "https"
    HTTP = "http"
    SSH = "ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformDefaults:
    """What a platform sends unless the bundle says otherwise; names are tried in order."""

    endpoint: str
    event_type_header: tuple[str, ...]
    git_scm_signature: tuple[str, ...]
    delivery_header: tuple[str, ...]
    push_event_name: tuple[str, ...] = ("push",)
    pr_event_name: tuple[str, ...] = ("pull_request",)


class PlatformKind:
    """What the plug-in of a Git platform tells the bundle; `core/git_platform.py` is its port.

    `flavors`: the defaults of each, for a kind that has any.
    """

    defaults: ClassVar[PlatformDefaults]
    flavors: ClassVar[Mapping[Flavor, PlatformDefaults]] = {}
    has_signing_secret: ClassVar[bool] = False


platform_kinds: Final[Registry[PlatformKind]] = Registry(
    "git platform", package="sync_stack.platforms"
)
_HEADER: Final = only(HEADER)
_EVENT: Final = only(text("an event name", r"[!-~][ -~]{0,99}"))
_OF_KIND: Final = "see the kinds below"


_SSH_KEY: Final = FieldTable(
    "platform ssh_key",
    (
        BundleField(name="private_key", attribute="ssh_private_key", type=SECRET, default=REQUIRED),
        BundleField(name="passphrase", attribute="ssh_passphrase", type=SECRET),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A Git platform. `endpoint` is the web base, without `/` at its end.

    Names of headers and events are tried in order; a trailing `*` of an event matches a prefix. A
    resolved `secret` that begins with `whsec_` counts as `signing_secret` (gitlab).
    """

    name: str
    kind: str
    endpoint: str = option(
        parsed_text("URL", web_base),
        "",
        "Base for clone URLs, and the only host that ever receives `token`. `api.` hosts "
        "and `/api/v3`, `/api/v4`, `/api/v1` are reduced to the web base",
        shown="of the kind; required for gitea and Bitbucket data center",
    )
    tag: str = option(TAG, "", "Suffix of the name: `github-tag`")
    flavor: Flavor = option(choice(Flavor, "FLAVOR_"), Flavor.CLOUD, "Bitbucket only")
    protocol: Protocol = option(choice(Protocol, "PROTOCOL_"), Protocol.HTTPS, "Form of clone URLs")
    secret: SecretRef | None = option(SECRET, None, "Webhook key; required in production")
    secret_previous: SecretRef | None = option(
        SECRET, None, "Accepted beside `secret` during a rotation"
    )
    signing_secret: SecretRef | None = option(
        SECRET, None, "GitLab's signing token, `whsec_…`; a `secret` that begins so is taken as one"
    )
    token: SecretRef | None = option(SECRET, None, "Access token for cloning")
    username: str = option(TEXT, "", "Of the clone credentials")
    password: SecretRef | None = option(SECRET, None, "Of the clone credentials")
    ssh_key: ClassVar = input_only(group(_SSH_KEY), "`private_key`* and `passphrase`", spread=True)
    ssh_private_key: SecretRef | None = None
    ssh_passphrase: SecretRef | None = None
    known_hosts: str = option(TEXT, "", "Host keys; an unknown host fails")
    verify_ssl: bool = option(FLAG, True, "false warns `risky_setting`")
    ca_cert: str = option(TEXT, "", "Path or PEM")
    timeout_s: float = option(
        duration(1, 600), 30.0, "Limit of one Git network operation", name="timeout"
    )
    event_type_header: tuple[str, ...] = option(
        _HEADER, (), "Header that names the event", shown=_OF_KIND
    )
    git_scm_signature: tuple[str, ...] = option(
        _HEADER, (), "Header of the signature", shown=_OF_KIND
    )
    delivery_header: tuple[str, ...] = option(
        _HEADER, (), "Header of the delivery id", shown=_OF_KIND
    )
    push_event_name: tuple[str, ...] = option(
        _EVENT, (), "A trailing `*` matches a prefix", shown=_OF_KIND
    )
    pr_event_name: tuple[str, ...] = option(
        _EVENT, (), "A trailing `*` matches a prefix", shown=_OF_KIND
    )
    org_name: ClassVar = input_only(
        text("an owner", r"[A-Za-z0-9._~-][A-Za-z0-9._/~-]*"),
        "Put before repository patterns without `/`",
    )
    max_retries: ClassVar = no_effect(COUNT)
    page_size: ClassVar = no_effect(COUNT)
    secret_manager: ClassVar = input_only(OPTIONAL_TEXT, "Holds `ref` secrets of the entry")
    location: Location = field(default=Location(), compare=False, repr=False)


PLATFORM: Final = table_of("platform", Platform)


def build_platform(
    kind: str, name: str, parsed: ParsedFields, *, manager: str, production: bool
) -> Platform | None:
    """Return None when something required is wrong; `manager` holds its `ref` secrets."""
    facts = asdict(_defaults(kind, parsed))
    endpoint = parsed.get("endpoint", facts["endpoint"])
    _check_credentials(parsed)
    _check_endpoint(endpoint, parsed, production=production)
    if production and not parsed.has("secret") and not parsed.has("signing_secret"):
        message = "a webhook secret is required in production"
        parsed.at("secret").error("production_requirement", message)
    if not parsed.complete or not endpoint:
        return None
    facts = {each: value for each, value in facts.items() if each not in parsed.values}
    facts |= {"name": name, "kind": kind, "location": parsed.located.location}
    platform: Platform = parsed.build(manager=manager, **facts)
    return platform


def _defaults(kind: str, parsed: ParsedFields) -> PlatformDefaults:
    known = platform_kinds[kind]
    if parsed.has("flavor") and not known.flavors:
        parsed.at("flavor").warn("no_effect", f"{kind} has no flavors")
    if parsed.has("signing_secret") and not known.has_signing_secret:
        parsed.at("signing_secret").warn("no_effect", f"{kind} has no signing secret")
    return known.flavors.get(parsed.get("flavor", Flavor.CLOUD), known.defaults)


def _check_credentials(parsed: ParsedFields) -> None:
    if parsed.has("token") and parsed.has("password"):
        message = "token and password are two ways to clone"
        parsed.at("password").error("mutually_exclusive", message)
    parsed.needs("password", "username")
    if parsed.get("protocol") is Protocol.SSH:
        for name in ("ssh_key", "known_hosts"):
            if not parsed.has(name):
                parsed.at(name).error("missing_field", f"ssh needs {name}")
    parsed.warn_unverified("verify_ssl", risky=False)


def _check_endpoint(endpoint: str, parsed: ParsedFields, *, production: bool) -> None:
    located, parts = parsed.at("endpoint"), urlsplit(endpoint)
    if not endpoint and not parsed.has("endpoint"):
        located.error("missing_field", "endpoint is required")
    if not endpoint or not production:
        return
    plain = parts.scheme == "http" or parsed.get("protocol") is Protocol.HTTP
    if parts.scheme == "file":
        located.error("production_requirement", "file:// is not allowed in production")
    elif plain and not is_inner(parts.hostname or ""):
        message = "http is allowed in production only to private addresses"
        located.error("production_requirement", message)
