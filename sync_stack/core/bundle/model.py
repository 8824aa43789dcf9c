"""The bundle as values: what every process of the sync stack works from. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from sync_stack.core.bundle.datasources import (
    ConditionalWrites,
    ConfigMapOptions,
    Datasource,
    DatasourceOptions,
    FileOptions,
    KeyCase,
    MongoOptions,
    OnConflict,
    OutputShape,
    OutputTypes,
    RedisMode,
    RedisOptions,
    RedisStructure,
    S3Options,
    UpdateStrategy,
)
from sync_stack.core.bundle.secret_refs import (
    AppRoleAuth,
    KubernetesAuth,
    Location,
    SecretManager,
    SecretRef,
    TokenAuth,
    UserpassAuth,
    VaultAuth,
)

__all__ = [
    "AppRoleAuth",
    "Bundle",
    "Cleanup",
    "CleanupAction",
    "ConditionalWrites",
    "ConfigMapOptions",
    "Datasource",
    "DatasourceOptions",
    "DisabledRule",
    "EnvSlice",
    "FileEnvironment",
    "FileOptions",
    "Flavor",
    "GatewayLimits",
    "KeyCase",
    "KeyFormat",
    "KubernetesAuth",
    "Location",
    "MongoOptions",
    "OnConflict",
    "OnMissingFile",
    "OutputShape",
    "OutputTypes",
    "Platform",
    "Protocol",
    "Prune",
    "Rate",
    "RedisMode",
    "RedisOptions",
    "RedisStructure",
    "Rule",
    "S3Options",
    "SchemaRegistry",
    "SecretManager",
    "SecretRef",
    "SyncMode",
    "TokenAuth",
    "UpdateStrategy",
    "UserpassAuth",
    "Variable",
    "VariableForm",
    "VaultAuth",
]


class Flavor(StrEnum):
    """Which Bitbucket."""

    CLOUD = "cloud"
    DATACENTER = "datacenter"


class Protocol(StrEnum):
    """The form of clone URLs."""

    HTTPS = "https"
    HTTP = "http"
    SSH = "ssh"


class SyncMode(StrEnum):
    GIT_UPSERT_ALL = "GIT_UPSERT_ALL"
    GIT_SMART_REPAIR = "GIT_SMART_REPAIR"
    LIVE_STATE = "LIVE_STATE"
    AUTO = "AUTO"


class EnvSlice(StrEnum):
    AUTO = "auto"
    OFF = "off"


class CleanupAction(StrEnum):
    KEEP = "keep"
    PRUNE = "prune"


class OnMissingFile(StrEnum):
    KEEP = "keep"
    FAIL = "fail"


class KeyFormat(StrEnum):
    DOT = "dot"
    FLAT = "flat"


class VariableForm(StrEnum):
    """How an entry of variables_map is meant; AUTO: a rename when that flat key exists."""

    AUTO = "auto"
    FROM = "from"
    LITERAL = "literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A Git platform. `endpoint` is the web base, without `/` at its end.

    Names of headers and events are tried in order; a trailing `*` of an event matches a prefix. A
    resolved `secret` that begins with `whsec_` counts as `signing_secret` (gitlab).
    """

    name: str
    kind: str
    endpoint: str
    tag: str = ""
    flavor: Flavor = Flavor.CLOUD
    protocol: Protocol = Protocol.HTTPS
    secret: SecretRef | None = None
    secret_previous: SecretRef | None = None
    signing_secret: SecretRef | None = None
    token: SecretRef | None = None
    username: str = ""
    password: SecretRef | None = None
    ssh_private_key: SecretRef | None = None
    ssh_passphrase: SecretRef | None = None
    known_hosts: str = ""
    verify_ssl: bool = True
    ca_cert: str = ""
    timeout_s: float = 30.0
    event_type_header: tuple[str, ...] = ()
    git_scm_signature: tuple[str, ...] = ()
    delivery_header: tuple[str, ...] = ()
    push_event_name: tuple[str, ...] = ()
    pr_event_name: tuple[str, ...] = ()
    place: Location = field(default=Location(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnvironment:
    """A path or glob of tracked files, and the environment that they are for.

    `by_env`: the map is from environments to files, so a file is for its environment only. From
    paths to environments, a branch that names an environment takes every file.
    """

    path: str
    env: str
    by_env: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    text: str
    form: VariableForm = VariableForm.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    enabled: bool = False
    dry_run: bool = False
    protection: tuple[str, ...] = ()
    max_delete_ratio: float = 0.2
    max_delete_floor: int = 1
    allow_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What happens to a derived environment when its branch, tag or pull request is gone."""

    on_branch_delete: CleanupAction = CleanupAction.KEEP
    on_tag_delete: CleanupAction = CleanupAction.KEEP
    on_pr_close: CleanupAction = CleanupAction.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which files of which repositories go where.

    `datasource` is a name of the bundle's list, `segment` the text written in its place: the last
    part of the route. `repositories` and `exclude_repositories` (which wins) have overrides and
    org_name applied. `env_as_*` of a sink, when not None, override the datasource's.
    `key_format` None: the sink's default. `secret_manager`: a name of Bundle.secret_managers.
    """

    name: str
    platform: str
    datasource: str
    segment: str
    repositories: tuple[str, ...]
    exclude_repositories: tuple[str, ...] = ()
    repo_url: str = ""
    tenant: str = "default"
    file_name: str = ""
    file_path_map: tuple[FileEnvironment, ...] = ()
    file_format: str = "auto"
    root_key: str | None = None
    branches: tuple[str, ...] = ()
    branch_map: Mapping[str, str] = field(default_factory=dict)
    env_as_branch: bool = False
    env_as_pr: bool = False
    env_as_tags: bool = False
    default_env: str = ""
    env_slice: EnvSlice = EnvSlice.AUTO
    environments: tuple[str, ...] = ()
    pr_from_forks: bool = False
    cleanup: Cleanup = Cleanup()
    on_missing_file: OnMissingFile = OnMissingFile.KEEP
    adopt: bool = False
    destination_template: str = ""
    key_format: KeyFormat | None = None
    variables_map: Mapping[str, Variable] = field(default_factory=dict)
    env_as_collection: bool | None = None
    env_as_namespace: bool | None = None
    env_as_name_suffix: bool | None = None
    env_as_key_prefix: bool | None = None
    env_as_prefix: bool | None = None
    env_as_dir: bool | None = None
    env_as_filename: bool | None = None
    sync_mode: SyncMode = SyncMode.AUTO
    prune: Prune = Prune()
    dry_run: bool = False
    self_heal: bool = False
    strict_validation: bool = False
    allow_overrides: bool | tuple[str, ...] = False
    secret_manager: str = ""
    max_file_bytes: int = 2**20
    max_changed_files: int = 500
    retry_backoff_s: float = 2.0
    place: Location = field(default=Location(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisabledRule:
    """A rule that this build cannot serve: its route answers 404, readiness names it."""

    name: str
    segment: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A token bucket: `rate` a second, `burst` at most at once."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """What the bundle says of the gateway's limits; the gateway's environment wins over it."""

    rate_global: Rate = Rate(rate=100, burst=200)
    rate_per_ip: Rate = Rate(rate=20, burst=40)
    rate_per_key: Rate = Rate(rate=10, burst=20)
    breaker_failures: int = 5
    breaker_open_s: float = 30.0
    breaker_probes: int = 1
    breaker_successes: int = 3
    replay_window_s: float = 300.0
    forward_timeout_s: float = 8.0
    trusted_proxies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """The repository that holds schemas of configuration files."""

    platform: str
    repo: str
    branch: str = "main"
    path: str = ""
    secret_manager: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A valid bundle. `digest` is the SHA-256 (hex) of the file it was read from.

    Datasource references are names of `datasources`; empty where the bundle leaves them open.
    """

    platforms: tuple[Platform, ...]
    datasources: tuple[Datasource, ...]
    rules: tuple[Rule, ...]
    disabled_rules: tuple[DisabledRule, ...] = ()
    task_broker_datasource: str = ""
    task_backend_datasource: str = ""
    watcher_state_datasource: str = ""
    gateway_nonce_datasource: str = ""
    max_webhook_body_bytes: int = 10 * 2**20
    gateway: GatewayLimits = GatewayLimits()
    secret_managers: tuple[SecretManager, ...] = ()
    schema_registry: SchemaRegistry | None = None
    global_tags: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    def platform(self, name: str) -> Platform:
        """Raises KeyError."""
        return _named(self.platforms, name)

    def datasource(self, name: str) -> Datasource:
        """Raises KeyError."""
        return _named(self.datasources, name)

    def secret_manager(self, name: str) -> SecretManager:
        """Raises KeyError."""
        return _named(self.secret_managers, name)

    def rule(self, name: str) -> Rule:
        """Raises KeyError, also for a disabled one."""
        return _named(self.rules, name)

    def rules_of_segment(self, segment: str) -> tuple[Rule, ...]:
        """The rules behind one route, in the bundle's order; empty for an unknown segment."""
        return tuple(rule for rule in self.rules if rule.segment == segment)


Entry = TypeVar("Entry", Platform, Datasource, SecretManager, Rule)


def _named(entries: tuple[Entry, ...], name: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    raise KeyError(name)
