"""The settings keys: each is declared here once, with its default, check, attribute and meaning.

Validation, the wire form, `configuration.yaml`, the history, masks and the OpenAPI description are
read from `GROUPS`. A new key is an entry here, and a field of the value that has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final, get_args
from urllib.parse import urlsplit
from uuid import UUID

from apps.platform_settings.domain.addresses import HOST, broken_address_rule, without_user
from apps.platform_settings.domain.backends import KIND_OF_TYPE, Mode
from kernel.ci_trust import claim_rule, pattern_rule, repository_rule, suite_rule
from kernel.ids import is_env_name, is_identifier

MASK: Final = "********"
ENCRYPTED: Final = "encrypted:"
_MAX_PLACES: Final = 100_000
_TYPE_ALIASES: Final = {
    "": "local",
    "docker": "local",
    "k8s": "kubernetes",
    "remote": "remote-agent",
}
_JOB_ROLES: Final = ("viewer", "runner")
_MANAGERS: Final = ("none", "vault", "aws-secrets-manager")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its default, whose type is the type of the value.

    `attribute` is the name that the value has in Python: None where nothing but the wire form has
    it. `check` returns the rule that a text breaks, or "", and `read` what the text means, also
    where it breaks a rule. `aliases` are other spellings of texts. `required`: a text that must not
    be empty. `choices` are the words of an enumeration in the OpenAPI description, `low` and `high`
    the bounds of a number, and `note` what the description says of the key.
    `secret`: a text that nobody reads back; `hidden_by` names a flag of the entry that makes it
    one. `private`: shown to administrators only. `address`: a URL, whose user and password, if an
    older version let them in, nobody sees. `check_item` is the check of each text of a list.
    `sent_to` names the keys of the same entry that say
    where a secret is sent: when one of them changes, it is entered again.
    `read_only`: filled in by the platform, and ignored in what comes from outside; `optional`: one
    that is left out where it is not known; `is_time`: one that is a moment.
    """

    name: str
    attribute: str | None = None
    _: KW_ONLY
    default: str | int | bool | tuple[str, ...] = ""
    check: Callable[[str], str] | None = None
    check_item: Callable[[str], str] | None = None
    read: Callable[[str], object] = str
    aliases: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    secret: bool = False
    hidden_by: str = ""
    private: bool = False
    address: bool = False
    sent_to: tuple[str, ...] = ()
    read_only: bool = False
    optional: bool = False
    is_time: bool = False
    note: str = ""

    @property
    def default_value(self) -> object:
        """The default as it stands in the wire form."""
        return list(self.default) if isinstance(self.default, tuple) else self.default


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """The keys of one mapping of the document, or of each entry of a list; `path` leads there.

    The first key of a list's entries is their identity. `folds_case`: two identities that differ
    in case alone are the same.
    """

    path: tuple[str, ...]
    keys: tuple[Key, ...]
    is_list: bool = False
    folds_case: bool = False
    note: str = ""
    settable: tuple[Key, ...] = field(init=False)
    read_only: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settable", tuple(key for key in self.keys if not key.read_only))
        read_only = frozenset(key.name for key in self.keys if key.read_only)
        object.__setattr__(self, "read_only", read_only)

    @property
    def identity(self) -> str:
        return self.keys[0].name

    @property
    def pointer(self) -> str:
        return "".join(f"/{part}" for part in self.path)

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


def _rule_of_words(text: str, known: Collection[str]) -> str:
    return "" if text in known else f"must be one of {', '.join(known)}"


def _mode_rule(text: str) -> str:
    return "" if text in get_args(Mode) else "must be local, remote or hybrid"


def _manager_rule(text: str) -> str:
    rule = _rule_of_words(text, _MANAGERS)
    return f"{rule}, not {text}" if rule else ""


def _identifier_rule(text: str) -> str:
    rule = "may have letters, digits, dots, dashes and underscores, 128 at most"
    return "" if is_identifier(text) else rule


def _namespace_rule(text: str) -> str:
    rule = "may have lowercase letters, digits and dashes, 63 at most"
    return "" if _NAMESPACE.match(text) else rule


def _variable_rule(text: str) -> str:
    return "" if is_env_name(text) else "must be the name of an environment variable"


def _workspace_rule(text: str) -> str:
    """Check the form alone: a file may be older or newer than the store, which does no harm."""
    try:
        UUID(text)
    except ValueError:
        return "must be the id of a workspace, such as 01890a5d-ac96-774b-bcce-b302099a8057"
    return ""


def _workspace_id(text: str) -> str:
    """Return the id in the one form that compares."""
    return text if not text or _workspace_rule(text) else str(UUID(text))


def _type_rule(text: str) -> str:
    return _rule_of_words(text, KIND_OF_TYPE)


def _registry_url_rule(text: str) -> str:
    return broken_address_rule(_with_scheme(text))


def _registry_url(text: str) -> str:
    """Return the address; one without a scheme is one of https (reference: control-plane 5.2).

    An address with a user, as an older version stored it, stays in use without that.
    """
    url = without_user(_with_scheme(text))
    return "" if not url or broken_address_rule(url) else url


def _with_scheme(text: str) -> str:
    return f"https://{text}" if text and "://" not in text else text


def _scope(text: str) -> tuple[str, ...]:
    """Return names and path prefixes of repositories; none for all of them."""
    scope = tuple(filter(None, (name.strip().strip("/") for name in text.split(","))))
    return () if "*" in scope else scope


def _issuer_rule(text: str) -> str:
    """Refuse what no token may name; http is for loopback, in development."""
    if rule := broken_address_rule(text):
        return rule
    parts = urlsplit(text)
    if parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return ""
    return "must be an https address"


def _job_role_rule(text: str) -> str:
    return _rule_of_words(text, _JOB_ROLES)


def _host_rule(text: str) -> str:
    rule = "must be the name or address of a host; user name and password have own keys"
    return "" if HOST.fullmatch(text) else rule


def _sender_rule(text: str) -> str:
    return "" if "@" in text else "must be the mail address of the sender"


_LIMITS: Final = (
    Key(
        "maxConcurrentRuns",
        "max_concurrent_runs",
        default=0,
        high=_MAX_PLACES,
        note="0: any number",
    ),
    Key(
        "maxConcurrentSteps",
        "max_concurrent_steps",
        default=0,
        high=_MAX_PLACES,
        note="0: any number",
    ),
)
INSTALLATION: Final = KeyGroup(
    (),
    (
        Key("mode", "mode", default="local", check=_mode_rule, choices=get_args(Mode)),
        Key("description"),
        Key("updatedAt", read_only=True, optional=True, is_time=True),
        Key("fileInSync", default=False, read_only=True),
        Key("warnings", default=(), read_only=True),
    ),
)
AGENTS: Final = KeyGroup(
    ("agents",),
    (
        Key("agentId", "backend_id", check=_identifier_rule, required=True),
        Key("name", "label", required=True),
        Key("type", "type", default="local", check=_type_rule, aliases=_TYPE_ALIASES),
        Key("description", "description"),
        Key("enabled", "enabled", default=True),
        Key("default", "default", default=False),
        Key("routingTags", "routing_tags", default=()),
        Key("dockerSocket", "docker_socket"),
        Key("hostUrl", "host_url", address=True),
        Key("tlsCert", "tls_cert"),
        Key("tlsKey", "tls_key", secret=True, sent_to=("hostUrl",)),
        Key("kubeconfigPath", "kubeconfig_path", private=True),
        Key("kubeconfigContext", "kubeconfig_context"),
        Key("targetNamespace", "target_namespace", default="default", check=_namespace_rule),
        *_LIMITS,
        Key("serviceAccountToken", "service_account_token", secret=True, sent_to=("hostUrl",)),
        Key("sharedClaim", "shared_claim"),
        Key("status", read_only=True, choices=("Ready", "Disconnected", "Standby")),
        Key("waitsFor", read_only=True, optional=True),
        Key("registeredAt", read_only=True, optional=True, is_time=True),
        Key("lastHeartbeatAt", read_only=True, optional=True, is_time=True),
        Key("runtimeCapabilities", default=(), read_only=True),
    ),
    is_list=True,
)
WORKSPACES: Final = KeyGroup(
    ("workspaces",),
    (
        Key(
            "workspaceId", "workspace_id", check=_workspace_rule, read=_workspace_id, required=True
        ),
        Key("weight", "weight", default=1, low=1, high=1_000),
        *_LIMITS,
    ),
    is_list=True,
    note="for others than administrators their own alone",
)
REGISTRIES: Final = KeyGroup(
    ("registries",),
    (
        Key("registryId", "registry_id", check=_identifier_rule, required=True),
        Key("name", "name", required=True),
        Key("provider", "provider", required=True),
        Key(
            "registryUrl",
            "url",
            check=_registry_url_rule,
            read=_registry_url,
            required=True,
            address=True,
        ),
        Key("username", "username", private=True),
        Key("secret", "secret", secret=True, sent_to=("registryUrl",)),
        Key("repositoryScope", "scope", read=_scope),
        Key("region", "region"),
        Key("allowLocalNetwork", "allow_local_network", default=False),
        Key("syncStatus", read_only=True, choices=("Pending", "Indexed", "Failed")),
        Key("lastSyncedAt", read_only=True, optional=True, is_time=True),
        Key("lastError", read_only=True, optional=True),
    ),
    is_list=True,
    folds_case=True,
)
CI_TRUST: Final = KeyGroup(
    ("ciTrust",),
    tuple(
        replace(each, private=True)
        for each in (
            Key("name", "name", check=_identifier_rule, required=True),
            Key("issuer", "issuer", check=_issuer_rule, required=True, address=True),
            Key("audience", "audience", required=True),
            Key("repositories", "repositories", default=(), check_item=repository_rule),
            Key("branches", "branches", default=(), check_item=pattern_rule),
            Key("tags", "tags", default=(), check_item=pattern_rule),
            Key("environments", "environments", default=(), check_item=pattern_rule),
            Key("claims", "claims", default=(), check_item=claim_rule),
            Key("workspace", "workspace", required=True, note="its slug or id"),
            Key("role", "role", default="runner", check=_job_role_rule, note="runner, viewer"),
            Key("suites", "suites", default=(), check_item=suite_rule),
            Key("allowForks", "allow_forks", default=False),
            Key("expiresMinutes", "expires_minutes", default=60, low=1, high=60),
            Key("allowLocalNetwork", "allow_local_network", default=False),
        )
    ),
    is_list=True,
    note="empty for others than administrators",
)
SECRETS: Final = KeyGroup(
    ("secrets",),
    (
        Key("provider", default="none", check=_manager_rule),
        Key(
            "vaultAddress",
            "vault_address",
            check=broken_address_rule,
            read=without_user,
            private=True,
            address=True,
        ),
        Key("vaultNamespace", "vault_namespace"),
        Key("vaultRole", "vault_role"),
        Key("awsRegion", "aws_region"),
        Key("secretPrefix", "prefix"),
    ),
)
OVERRIDES: Final = KeyGroup(
    ("secrets", "globalOverrides"),
    (
        Key("key", "key", check=_variable_rule, required=True),
        Key("value", "value", hidden_by="sensitive"),
        Key("description"),
        Key("sensitive", "sensitive", default=False),
    ),
    is_list=True,
)
SMTP: Final = KeyGroup(
    ("notifications", "smtp"),
    (
        Key("host", "host", check=_host_rule),
        Key("port", "port", default=587, low=1, high=65535),  # of submission, RFC 6409
        Key("username", "username", private=True),
        Key("password", "password", secret=True, sent_to=("host", "port")),
        Key("from", "sender", check=_sender_rule),
    ),
)
GROUPS: Final = (INSTALLATION, AGENTS, WORKSPACES, REGISTRIES, CI_TRUST, SECRETS, OVERRIDES, SMTP)


def key_group(*path: str) -> KeyGroup:
    """Return the keys of the mapping at a path of the document, or of the entries of its list."""
    return next(group for group in GROUPS if group.path == path)


def known_names(path: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that the mapping at a path may have."""
    own = {key.name for group in GROUPS if group.path == path for key in group.keys}
    depth = len(path)
    below = {
        group.path[depth]
        for group in GROUPS
        if len(group.path) > depth and group.path[:depth] == path
    }
    return frozenset(own | below)


def key_named(dotted: str) -> Key | None:
    """Return the key that a name such as `registries[zot].username` of the history is about."""
    holder, _, name = dotted.rpartition(".")
    keys = (key for each in GROUPS if each.dotted == holder.partition("[")[0] for key in each.keys)
    return next((key for key in keys if key.name == name), None)
