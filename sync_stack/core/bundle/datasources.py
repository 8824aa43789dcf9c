"""Datasources: what all have in common, and the options of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from sync_stack.core.bundle.diagnostics import Location
from sync_stack.core.bundle.fields import input_only, option, table_of
from sync_stack.core.bundle.secrets import PRIVATE_KEY, SECRET, USER_NAME, SecretRef
from sync_stack.core.bundle.urls import http_url
from sync_stack.core.bundle.values import (
    FLAG,
    NAME,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    checked,
    choice,
    duration,
    list_of,
    map_of,
    text,
    whole,
)


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


def file_mode(written: str) -> int:
    """Return the value of octal digits; raise ValueError."""
    if not 3 <= len(written) <= 4 or set(written) - set("01234567"):  # noqa: PLR2004 - rwx, with a 0
        raise ValueError(f'"{written[:20]}" is no file mode such as "0640"')
    return int(written, 8)


_HOST: Final = text("a host", r"[A-Za-z0-9._:-]{1,253}|\[[0-9A-Fa-f:.]+\]")
_HOST_PORT: Final = text(
    "host or host:port", r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_HOSTS: Final = list_of(_HOST_PORT, at_least=1, at_most=50)
_PORT: Final = whole(1, 65_535)
_URL: Final = checked("URL", http_url)
_CONNECTION: Final = text(
    "a connection string (mongodb:// or mongodb+srv://)", r"mongodb(?:\+srv)?://\S+", secret=True
)
_FILE_FORMATS: Final = ("json", "yaml", "toml", "env", "properties", "ini")
_RISKY: Final = "true warns `risky_setting`"
_UNVERIFIED: Final = "false warns `risky_setting`"
_PATH_OR_PEM: Final = "Path or PEM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoOptions:
    """`endpoint` (a connection string) or `hosts` (`host:port`), never both."""

    endpoint: str = option(
        _CONNECTION,
        "",
        "Required, unless `host` or `hosts` say where it is; they may stand beside it where "
        "they name the same servers",
        aliases="uri",
        hidden=True,
    )
    host: ClassVar = input_only(_HOST, "With `port`, in place of `endpoint`")
    port: ClassVar = input_only(_PORT, "Of `host`", shown="27017")
    hosts: tuple[str, ...] = option(_HOSTS, (), "`host:port` each, in place of `endpoint`")
    database: str = option(text("a database", r'[^/\\. "$\0]{1,63}'), "configs")
    collection: str = option(text("a collection", r"[^$\0]{1,120}"), "configs")
    env_as_collection: bool = option(FLAG, False, "`<collection>_<env>`")
    max_pool_size: int = option(whole(1, 1000), 10)
    connect_timeout_ms: ClassVar = input_only(
        whole(100, 10_000), "Another way to write `connect_timeout`"
    )
    username: SecretRef | None = option(USER_NAME, None)
    password: SecretRef | None = option(SECRET, None, "Only with `username`")
    auth_source: str = option(TEXT, "")
    auth_mechanism: str = option(TEXT, "")
    replica_set: str = option(TEXT, "")
    ssl: bool = option(FLAG, False, aliases="tls_enabled")
    ssl_ca_path: str = option(TEXT, "", aliases="tls_ca_file")
    ssl_cert_path: str = option(TEXT, "")
    ssl_key_path: str = option(TEXT, "")
    ssl_allow_invalid_certificates: bool = option(FLAG, False, _RISKY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """`hosts` are `host:port`, at least one; several for CLUSTER and SENTINEL."""

    host: ClassVar = input_only(_HOST, shown='"localhost"')
    port: ClassVar = input_only(_PORT, shown="6379")
    hosts: tuple[str, ...] = option(
        _HOSTS, ("localhost:6379",), "`host:port` each, in place of `host`", shown="–"
    )
    db: int = option(whole(0, 15), 0, aliases="database")
    mode: RedisMode = option(
        choice(RedisMode, "DEPLOYMENT_MODE_ MODE_", numbers=range(4)),
        RedisMode.STANDALONE,
        aliases="deployment_mode",
    )
    sentinel_master: str = option(NAME, "", "Required with SENTINEL")
    username: SecretRef | None = option(USER_NAME, None)
    password: SecretRef | None = option(SECRET, None)
    data_structure: RedisStructure = option(
        choice(RedisStructure, "DATA_STRUCTURE_", numbers=range(4)),
        RedisStructure.HASH,
        "Without it `update_strategy: DOCUMENT` means JSON",
    )
    hash_key: str = option(NAME, "config", "Of the hash, where no template names it")
    key_prefix: str = option(OPTIONAL_TEXT, "")
    env_as_key_prefix: bool = option(FLAG, False, "Separator and environment behind it")
    key_separator: str = option(text("a separator", r"[!-~]{1,8}"), ":")
    ttl_s: float = option(
        duration(0), 0.0, "0: for ever; with `self_heal` it warns `risky_setting`", name="ttl"
    )
    enable_tls: bool = option(FLAG, False)
    tls_ca_cert: str = option(TEXT, "", _PATH_OR_PEM, aliases="tls_ca")
    tls_client_cert: str = option(TEXT, "", aliases="tls_cert")
    tls_client_key: str = option(TEXT, "", aliases="tls_key")
    insecure_skip_verify: bool = option(FLAG, False, _RISKY)
    max_connections: int = option(whole(1, 10_000), 20)
    pipeline_batch_size: int = option(whole(1, 10_000), 5000)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """Without keys only `use_iam_role` allows the credentials of the surroundings."""

    bucket: str = option(text("a bucket", r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}"))
    endpoint: str = option(_URL, "", "Of a server other than AWS", aliases="endpoint_url")
    region: str = option(NAME, "us-east-1")
    force_path_style: bool = option(FLAG, False, shown="true when `endpoint` is set")
    access_key_id: SecretRef | None = option(SECRET, None, aliases="access_key")
    secret_access_key: SecretRef | None = option(SECRET, None, aliases="secret_key")
    session_token: SecretRef | None = option(SECRET, None)
    use_iam_role: bool = option(
        FLAG, False, "The credentials of the surroundings; used only with it"
    )
    prefix: str = option(OPTIONAL_TEXT, "")
    env_as_prefix: bool = option(FLAG, False, "`<prefix><env>/`")
    one_file_per_key: ClassVar = input_only(
        FLAG, "Another way to write `update_strategy: KEY_VALUE`", shown="false"
    )
    file_pattern: str = option(NAME, "config.json", "Name of the object that holds all keys")
    object_metadata: Mapping[str, str] = option(map_of(TEXT, at_most=20), dict)
    content_type: str = option(TEXT, "")
    server_side_encryption: str = option(choice(("AES256", "aws:kms")), "", aliases="sse_algorithm")
    kms_key_id: str = option(NAME, "", "Only with aws:kms", aliases="sse_kms_key_id")
    conditional_writes: ConditionalWrites = option(
        choice(ConditionalWrites, "CONDITIONAL_WRITES_"), ConditionalWrites.AUTO
    )
    max_concurrency: int = option(whole(1, 100), 10)
    verify_ssl: bool = option(FLAG, True, _UNVERIFIED)
    ssl_ca_cert: str = option(TEXT, "", _PATH_OR_PEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapOptions:
    """`env_as_name_suffix` None: true unless env_as_namespace or a template is set."""

    namespace: str = option(text("a namespace", r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"))
    configmap_name: str = option(
        text("a ConfigMap's name ([a-z0-9.-])", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
    )
    env_as_namespace: bool = option(FLAG, False)
    env_as_name_suffix: bool | None = option(
        FLAG,
        None,
        "`<configmap_name>-<env>`",
        shown="true unless `env_as_namespace` or a template is set",
    )
    kubeconfig_path: str = option(TEXT, "", aliases="kubeconfig")
    context: str = option(NAME, "", "Of the kubeconfig")
    api_server: str = option(
        _URL,
        "",
        "With `token`, or `client_cert` and `client_key`. Neither this nor a kubeconfig: "
        "the cluster it runs in",
    )
    token: SecretRef | None = option(SECRET, None)
    client_cert: str = option(TEXT, "", _PATH_OR_PEM)
    client_key: SecretRef | None = option(PRIVATE_KEY, None, "PEM: `{file: …}`, or a path as text")
    ca_cert: str = option(TEXT, "", _PATH_OR_PEM)
    insecure_skip_verify: bool = option(FLAG, False, _RISKY)
    flatten_to_keys: ClassVar = input_only(
        FLAG, "true is `update_strategy: KEY_VALUE`, false DOCUMENT", shown="true"
    )
    data_key: str = option(text("a data key", r"[-._a-zA-Z0-9]{1,253}"), "config.json")
    data_format: str = option(choice(("json", "yaml", "properties"), "DATA_FORMAT_"), "json")
    labels: Mapping[str, str] = option(map_of(OPTIONAL_TEXT, at_most=100), dict)
    annotations: Mapping[str, str] = option(map_of(OPTIONAL_TEXT, at_most=100), dict)
    immutable: bool = option(FLAG, False)
    on_conflict: OnConflict = option(
        choice(OnConflict, "ON_CONFLICT_ CONFLICT_STRATEGY_", numbers=range(4)),
        OnConflict.PATCH,
        "What foreign keys mean",
    )
    create_namespace: bool = option(FLAG, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """`format` empty: from the destination's suffix, else json."""

    root: str = option(
        text("an absolute directory", r"/[^\0]*"),
        description="Absolute directory; made with mode 0750",
        aliases="path base_directory base_path",
    )
    format: str = option(
        choice(_FILE_FORMATS, "FORMAT_"), "", shown="from the destination's suffix, else json"
    )
    env_as_dir: bool = option(FLAG, False, "`<env>/config.<ext>`")
    env_as_filename: bool = option(FLAG, True, "`config-<env>.<ext>`")
    file_mode: int = option(checked("file mode", file_mode), 0o640, shown='"0640"')
    key_case: KeyCase = option(choice(KeyCase, "KEY_CASE_"), KeyCase.KEEP)


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
    tag: str = option(TAG, "", "Suffix of the name: `redis-tag`")
    update_strategy: UpdateStrategy = option(
        choice(UpdateStrategy, "UPDATE_STRATEGY_ STRATEGY_", numbers=range(4)),
        UpdateStrategy.KEY_VALUE,
        "What is stored as one record: a key, all keys, a file. 0: the kind's default",
        shown="of the kind: KEY_VALUE for mongo, redis and configmap, DOCUMENT for s3 and file",
    )
    output_shape: OutputShape = option(
        choice(OutputShape, "OUTPUT_SHAPE_"), OutputShape.FLAT, "Of records that hold many keys"
    )
    output_types: OutputTypes = option(
        choice(OutputTypes, "OUTPUT_TYPES_"),
        OutputTypes.STRING,
        "native: a number or bool where reading it back gives the same spelling",
    )
    secret_manager: str = option(NAME, "", "Holds `ref` secrets of the entry")
    connect_timeout_s: float = option(
        duration(0.1, 10), 5.0, "Of a new connection", name="connect_timeout"
    )
    timeout_s: float = option(
        duration(0.1, 10), 10.0, "Of one operation, retries of the client included", name="timeout"
    )
    location: Location = field(default=Location(), compare=False, repr=False)


_OPTIONS: Final[Mapping[str, type[DatasourceOptions]]] = {
    "mongo": MongoOptions,
    "redis": RedisOptions,
    "s3": S3Options,
    "configmap": ConfigMapOptions,
    "file": FileOptions,
}
TABLES: Final = {kind: table_of(kind, model, Datasource) for kind, model in _OPTIONS.items()}
COMMON_TABLE: Final = table_of("datasource", Datasource)
UNSUPPORTED: Final = ("zookeeper", "helm", "linux_server", "vercel")
