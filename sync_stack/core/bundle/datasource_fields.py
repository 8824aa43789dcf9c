"""The fields of each kind of datasource."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sync_stack.core.bundle.datasources import (
    ConditionalWrites,
    ConfigMapOptions,
    Datasource,
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
from sync_stack.core.bundle.fields import Field, Table
from sync_stack.core.bundle.secret_values import PRIVATE_KEY, SECRET, USER_NAME
from sync_stack.core.bundle.urls import parsed
from sync_stack.core.bundle.values import (
    NAME,
    OPTIONAL_TEXT,
    TAG,
    TEXT,
    Checked,
    Choice,
    Duration,
    Flag,
    Listed,
    Mapped,
    Text,
    Whole,
)


class Encryption(StrEnum):
    AES256 = "AES256"
    KMS = "aws:kms"


class DataFormat(StrEnum):
    JSON = "json"
    YAML = "yaml"
    PROPERTIES = "properties"


class FileFormat(StrEnum):
    JSON = "json"
    YAML = "yaml"
    TOML = "toml"
    ENV = "env"
    PROPERTIES = "properties"
    INI = "ini"


def http_url(text: str) -> str:
    """Raises BadUrl."""
    return parsed(text, ("https", "http")).geturl().rstrip("/")


HOST: Final = Text(words="a host", pattern=r"[A-Za-z0-9._:-]{1,253}|\[[0-9A-Fa-f:.]+\]")
HOST_PORT: Final = Text(
    words="host or host:port",
    pattern=r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?",
)
_PORT: Final = Whole(1, 65_535)
_URL: Final = Checked("URL", http_url)
_HOSTS: Final = Listed(HOST_PORT, at_least=1, at_most=50)
_LABELS: Final = Mapped(OPTIONAL_TEXT, at_most=100)
_RISKY: Final = "true warns `risky_setting`"

COMMON: Final = (
    Field(name="tag", value=TAG, words="Suffix of the name: `redis-tag`"),
    Field(
        name="update_strategy",
        value=Choice(
            UpdateStrategy,
            prefixes=("UPDATE_STRATEGY_", "STRATEGY_"),
            numbers={
                0: None,
                1: UpdateStrategy.KEY_VALUE,
                2: UpdateStrategy.DOCUMENT,
                3: UpdateStrategy.FILE,
            },
        ),
        default="of the kind: KEY_VALUE for mongo, redis and configmap, DOCUMENT for s3 and file",
        words="What is stored as one record: a key, all keys, a file. 0: the kind's default",
    ),
    Field(
        name="output_shape",
        value=Choice(OutputShape, prefixes=("OUTPUT_SHAPE_",)),
        words="Of records that hold many keys",
    ),
    Field(
        name="output_types",
        value=Choice(OutputTypes, prefixes=("OUTPUT_TYPES_",)),
        words="native: a number or bool where reading it back gives the same spelling",
    ),
    Field(name="secret_manager", value=NAME, words="Holds `ref` secrets of the entry"),
    Field(
        name="connect_timeout",
        value=Duration(low=0.1, high=10),
        into="connect_timeout_s",
        words="Of a new connection",
    ),
    Field(
        name="timeout",
        value=Duration(low=0.1, high=10),
        into="timeout_s",
        words="Of one operation, retries of the client included",
    ),
)
_MONGO: Final = (
    Field(
        name="endpoint",
        aliases=("uri",),
        value=Text(
            words="a connection string (mongodb:// or mongodb+srv://)",
            pattern=r"mongodb(?:\+srv)?://\S+",
            shown=False,
        ),
        words="Required, unless `host` or `hosts` say where it is; they may stand beside it where "
        "they name the same servers",
    ),
    Field(name="host", value=HOST, words="With `port`, in place of `endpoint`"),
    Field(name="port", value=_PORT, default="27017", words="Of `host`"),
    Field(name="hosts", value=_HOSTS, words="`host:port` each, in place of `endpoint`"),
    Field(name="database", value=Text(words="a database", pattern=r'[^/\\. "$\0]{1,63}')),
    Field(name="collection", value=Text(words="a collection", pattern=r"[^$\0]{1,120}")),
    Field(name="env_as_collection", value=Flag(), words="`<collection>_<env>`"),
    Field(name="max_pool_size", value=Whole(1, 1000)),
    Field(
        name="connect_timeout_ms",
        value=Whole(100, 10_000),
        words="Another way to write `connect_timeout`",
    ),
    Field(name="username", value=USER_NAME),
    Field(name="password", value=SECRET, words="Only with `username`"),
    Field(name="auth_source", value=TEXT),
    Field(name="auth_mechanism", value=TEXT),
    Field(name="replica_set", value=TEXT),
    Field(name="ssl", aliases=("tls_enabled",), value=Flag()),
    Field(name="ssl_ca_path", aliases=("tls_ca_file",), value=TEXT),
    Field(name="ssl_cert_path", value=TEXT),
    Field(name="ssl_key_path", value=TEXT),
    Field(name="ssl_allow_invalid_certificates", value=Flag(), words=_RISKY),
)
_REDIS: Final = (
    Field(name="host", value=HOST, default='"localhost"'),
    Field(name="port", value=_PORT, default="6379"),
    Field(name="hosts", value=_HOSTS, default="–", words="`host:port` each, in place of `host`"),
    Field(name="db", aliases=("database",), value=Whole(0, 15)),
    Field(
        name="mode",
        aliases=("deployment_mode",),
        value=Choice(
            RedisMode,
            prefixes=("DEPLOYMENT_MODE_", "MODE_"),
            numbers={
                0: None,
                1: RedisMode.STANDALONE,
                2: RedisMode.CLUSTER,
                3: RedisMode.SENTINEL,
            },
        ),
    ),
    Field(name="sentinel_master", value=NAME, words="Required with SENTINEL"),
    Field(name="username", value=USER_NAME),
    Field(name="password", value=SECRET),
    Field(
        name="data_structure",
        value=Choice(
            RedisStructure,
            prefixes=("DATA_STRUCTURE_",),
            numbers={
                0: None,
                1: RedisStructure.STRING,
                2: RedisStructure.HASH,
                3: RedisStructure.JSON,
            },
        ),
        words="Without it `update_strategy: DOCUMENT` means JSON",
    ),
    Field(name="hash_key", value=NAME, words="Of the hash, where no template names it"),
    Field(name="key_prefix", value=OPTIONAL_TEXT),
    Field(name="env_as_key_prefix", value=Flag(), words="Separator and environment behind it"),
    Field(name="key_separator", value=Text(words="a separator", pattern=r"[!-~]{1,8}")),
    Field(
        name="ttl",
        value=Duration(low=0),
        into="ttl_s",
        words="0: for ever; with `self_heal` it warns `risky_setting`",
    ),
    Field(name="enable_tls", value=Flag()),
    Field(name="tls_ca_cert", aliases=("tls_ca",), value=TEXT, words="Path or PEM"),
    Field(name="tls_client_cert", aliases=("tls_cert",), value=TEXT),
    Field(name="tls_client_key", aliases=("tls_key",), value=TEXT),
    Field(name="insecure_skip_verify", value=Flag(), words=_RISKY),
    Field(name="max_connections", value=Whole(1, 10_000)),
    Field(name="pipeline_batch_size", value=Whole(1, 10_000)),
)
_S3: Final = (
    Field(
        name="bucket",
        value=Text(words="a bucket", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}"),
        required=True,
    ),
    Field(
        name="endpoint", aliases=("endpoint_url",), value=_URL, words="Of a server other than AWS"
    ),
    Field(name="region", value=NAME),
    Field(name="force_path_style", value=Flag(), default="true when `endpoint` is set"),
    Field(name="access_key_id", aliases=("access_key",), value=SECRET),
    Field(name="secret_access_key", aliases=("secret_key",), value=SECRET),
    Field(name="session_token", value=SECRET),
    Field(
        name="use_iam_role",
        value=Flag(),
        words="The credentials of the surroundings; used only with it",
    ),
    Field(name="prefix", value=OPTIONAL_TEXT),
    Field(name="env_as_prefix", value=Flag(), words="`<prefix><env>/`"),
    Field(
        name="one_file_per_key",
        value=Flag(),
        default="false",
        words="Another way to write `update_strategy: KEY_VALUE`",
    ),
    Field(name="file_pattern", value=NAME, words="Name of the object that holds all keys"),
    Field(name="object_metadata", value=Mapped(TEXT, at_most=20)),
    Field(name="content_type", value=TEXT),
    Field(
        name="server_side_encryption",
        aliases=("sse_algorithm",),
        value=Choice(Encryption),
    ),
    Field(name="kms_key_id", aliases=("sse_kms_key_id",), value=NAME, words="Only with aws:kms"),
    Field(
        name="conditional_writes",
        value=Choice(ConditionalWrites, prefixes=("CONDITIONAL_WRITES_",)),
    ),
    Field(name="max_concurrency", value=Whole(1, 100)),
    Field(name="verify_ssl", value=Flag(), words="false warns `risky_setting`"),
    Field(name="ssl_ca_cert", value=TEXT, words="Path or PEM"),
)
_DNS: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_CONFIGMAP: Final = (
    Field(
        name="namespace",
        value=Text(words="a namespace", pattern=r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
        required=True,
    ),
    Field(
        name="configmap_name",
        value=Text(words="a ConfigMap's name ([a-z0-9.-])", pattern=_DNS),
        required=True,
    ),
    Field(name="env_as_namespace", value=Flag()),
    Field(
        name="env_as_name_suffix",
        value=Flag(),
        default="true unless `env_as_namespace` or a template is set",
        words="`<configmap_name>-<env>`",
    ),
    Field(name="kubeconfig_path", aliases=("kubeconfig",), value=TEXT),
    Field(name="context", value=NAME, words="Of the kubeconfig"),
    Field(
        name="api_server",
        value=_URL,
        words="With `token`, or `client_cert` and `client_key`. Neither this nor a kubeconfig: "
        "the cluster it runs in",
    ),
    Field(name="token", value=SECRET),
    Field(name="client_cert", value=TEXT, words="Path or PEM"),
    Field(name="client_key", value=PRIVATE_KEY, words="PEM: `{file: …}`, or a path as text"),
    Field(name="ca_cert", value=TEXT, words="Path or PEM"),
    Field(name="insecure_skip_verify", value=Flag(), words=_RISKY),
    Field(
        name="flatten_to_keys",
        value=Flag(),
        default="true",
        words="true is `update_strategy: KEY_VALUE`, false DOCUMENT",
    ),
    Field(name="data_key", value=Text(words="a data key", pattern=r"[-._a-zA-Z0-9]{1,253}")),
    Field(name="data_format", value=Choice(DataFormat, prefixes=("DATA_FORMAT_",))),
    Field(name="labels", value=_LABELS),
    Field(name="annotations", value=_LABELS),
    Field(name="immutable", value=Flag()),
    Field(
        name="on_conflict",
        value=Choice(
            OnConflict,
            prefixes=("ON_CONFLICT_", "CONFLICT_STRATEGY_"),
            numbers={0: None, 1: OnConflict.REPLACE, 2: OnConflict.PATCH, 3: OnConflict.FAIL},
        ),
        words="What foreign keys mean",
    ),
    Field(name="create_namespace", value=Flag()),
)


def file_mode(text: str) -> int:
    """Octal digits. Raises ValueError."""
    if not 3 <= len(text) <= 4 or set(text) - set("01234567"):  # noqa: PLR2004 - rwx, with a 0
        raise ValueError(f'"{text[:20]}" is no file mode such as "0640"')
    return int(text, 8)


_FILE: Final = (
    Field(
        name="root",
        aliases=("path", "base_directory", "base_path"),
        value=Text(words="an absolute directory", pattern=r"/[^\0]*"),
        required=True,
        words="Absolute directory; made with mode 0750",
    ),
    Field(
        name="format",
        value=Choice(FileFormat, prefixes=("FORMAT_",)),
        default="from the destination's suffix, else json",
    ),
    Field(name="env_as_dir", value=Flag(), words="`<env>/config.<ext>`"),
    Field(name="env_as_filename", value=Flag(), words="`config-<env>.<ext>`"),
    Field(name="file_mode", value=Checked("file mode", file_mode), default='"0640"'),
    Field(name="key_case", value=Choice(KeyCase, prefixes=("KEY_CASE_",))),
)


def _table(kind: str, fields: tuple[Field, ...], model: type) -> Table:
    return Table(title=kind, fields=(*fields, *COMMON), model=model)


TABLES: Final[Mapping[str, Table]] = {
    "mongo": _table("mongo", _MONGO, MongoOptions),
    "redis": _table("redis", _REDIS, RedisOptions),
    "s3": _table("s3", _S3, S3Options),
    "configmap": _table("configmap", _CONFIGMAP, ConfigMapOptions),
    "file": _table("file", _FILE, FileOptions),
}
COMMON_TABLE: Final = Table(title="datasource", fields=COMMON, model=Datasource)
UNSUPPORTED: Final = ("zookeeper", "helm", "linux_server", "vercel")
