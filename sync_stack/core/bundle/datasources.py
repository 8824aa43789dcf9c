"""Datasources: what all have in common, and the options of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sync_stack.core.bundle.secret_refs import Location, SecretRef


class UpdateStrategy(StrEnum):
    """What a sink stores as one record: a key, all keys, or a file."""

    KEY_VALUE = "KEY_VALUE"
    DOCUMENT = "DOCUMENT"
    FILE = "FILE"


class OutputShape(StrEnum):
    FLAT = "flat"
    NESTED = "nested"


class OutputTypes(StrEnum):
    STRING = "string"
    NATIVE = "native"


class RedisMode(StrEnum):
    STANDALONE = "STANDALONE"
    CLUSTER = "CLUSTER"
    SENTINEL = "SENTINEL"


class RedisStructure(StrEnum):
    STRING = "STRING"
    HASH = "HASH"
    JSON = "JSON"


class ConditionalWrites(StrEnum):
    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class OnConflict(StrEnum):
    """What an existing ConfigMap with foreign keys means."""

    REPLACE = "REPLACE"
    PATCH = "PATCH"
    FAIL = "FAIL"


class KeyCase(StrEnum):
    KEEP = "keep"
    UPPER = "upper"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoOptions:
    """`endpoint` (a connection string) or `hosts` (`host:port`), never both."""

    endpoint: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    database: str = "configs"
    collection: str = "configs"
    env_as_collection: bool = False
    max_pool_size: int = 10
    username: SecretRef | None = None
    password: SecretRef | None = None
    auth_source: str = ""
    auth_mechanism: str = ""
    replica_set: str = ""
    ssl: bool = False
    ssl_ca_path: str = ""
    ssl_cert_path: str = ""
    ssl_key_path: str = ""
    ssl_allow_invalid_certificates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """`hosts` are `host:port`, at least one; several for CLUSTER and SENTINEL."""

    hosts: tuple[str, ...] = ("localhost:6379",)
    db: int = 0
    mode: RedisMode = RedisMode.STANDALONE
    sentinel_master: str = ""
    username: SecretRef | None = None
    password: SecretRef | None = None
    data_structure: RedisStructure = RedisStructure.HASH
    hash_key: str = "config"
    key_prefix: str = ""
    env_as_key_prefix: bool = False
    key_separator: str = ":"
    ttl_s: float = 0.0
    enable_tls: bool = False
    tls_ca_cert: str = ""
    tls_client_cert: str = ""
    tls_client_key: str = ""
    insecure_skip_verify: bool = False
    max_connections: int = 20
    pipeline_batch_size: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """Without keys only `use_iam_role` allows the credentials of the surroundings."""

    bucket: str
    endpoint: str = ""
    region: str = "us-east-1"
    force_path_style: bool = False
    access_key_id: SecretRef | None = None
    secret_access_key: SecretRef | None = None
    session_token: SecretRef | None = None
    use_iam_role: bool = False
    prefix: str = ""
    env_as_prefix: bool = False
    file_pattern: str = "config.json"
    object_metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    server_side_encryption: str = ""
    kms_key_id: str = ""
    conditional_writes: ConditionalWrites = ConditionalWrites.AUTO
    max_concurrency: int = 10
    verify_ssl: bool = True
    ssl_ca_cert: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapOptions:
    """`env_as_name_suffix` None: true unless env_as_namespace or a template is set."""

    namespace: str
    configmap_name: str
    env_as_namespace: bool = False
    env_as_name_suffix: bool | None = None
    kubeconfig_path: str = ""
    context: str = ""
    api_server: str = ""
    token: SecretRef | None = None
    client_cert: str = ""
    client_key: SecretRef | None = None
    ca_cert: str = ""
    insecure_skip_verify: bool = False
    data_key: str = "config.json"
    data_format: str = "json"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    immutable: bool = False
    on_conflict: OnConflict = OnConflict.PATCH
    create_namespace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """`format` empty: from the destination's suffix, else json."""

    root: str
    format: str = ""
    env_as_dir: bool = False
    env_as_filename: bool = True
    file_mode: int = 0o640
    key_case: KeyCase = KeyCase.KEEP


DatasourceOptions = MongoOptions | RedisOptions | S3Options | ConfigMapOptions | FileOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasource:
    """A sink, or what holds tasks, replay records or the watcher's state.

    `update_strategy` is decided: the kind's default and its aliases (one_file_per_key,
    flatten_to_keys, data_structure JSON) are applied.
    """

    name: str
    kind: str
    options: DatasourceOptions
    tag: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy.KEY_VALUE
    output_shape: OutputShape = OutputShape.FLAT
    output_types: OutputTypes = OutputTypes.STRING
    secret_manager: str = ""
    connect_timeout_s: float = 5.0
    timeout_s: float = 10.0
    place: Location = field(default=Location(), compare=False, repr=False)
