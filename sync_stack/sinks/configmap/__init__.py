"""Kubernetes ConfigMaps: a data key for each key, one for all keys, or one for each source file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from sync_stack.core.bundle.datasources import (
    DatasourceKind,
    DatasourceOptions,
    UpdateStrategy,
    datasource_kinds,
)
from sync_stack.core.bundle.fields import ParsedFields, input_only, option
from sync_stack.core.bundle.rules import KeyFormat
from sync_stack.core.bundle.secrets import PRIVATE_KEY, SECRET, SecretRef
from sync_stack.core.bundle.values import (
    FLAG,
    NAME,
    OPTIONAL_TEXT,
    PATH_OR_PEM,
    RISKY,
    TEXT,
    URL,
    choice,
    map_of,
    text,
)


class OnConflict(StrEnum):
    """What an existing ConfigMap with foreign keys means."""

    REPLACE = "REPLACE"
    PATCH = "PATCH"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapOptions(DatasourceOptions):
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
        URL,
        "",
        "With `token`, or `client_cert` and `client_key`. Neither this nor a kubeconfig: "
        "the cluster it runs in",
    )
    token: SecretRef | None = option(SECRET, None)
    client_cert: str = option(TEXT, "", PATH_OR_PEM)
    client_key: SecretRef | None = option(PRIVATE_KEY, None, "PEM: `{file: …}`, or a path as text")
    ca_cert: str = option(TEXT, "", PATH_OR_PEM)
    insecure_skip_verify: bool = option(FLAG, False, RISKY)
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

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        parsed.exclude("kubeconfig_path", "api_server")
        parsed.exclude("token", "client_cert")
        parsed.needs("context", "kubeconfig_path")
        parsed.together("client_cert", "client_key")
        if parsed.has("api_server"):
            if not parsed.has("token") and not parsed.has("client_cert"):
                message = "api_server needs token, or client_cert and client_key"
                parsed.at("token").error("missing_field", message)
            return
        for name in ("token", "client_cert", "ca_cert", "insecure_skip_verify"):
            if parsed.has(name):
                parsed.at(name).warn("no_effect", f"{name} counts only with api_server")

    @classmethod
    def strategies(cls, parsed: ParsedFields) -> Mapping[str, UpdateStrategy | None]:
        by_key = {True: UpdateStrategy.KEY_VALUE, False: UpdateStrategy.DOCUMENT, None: None}
        return {"flatten_to_keys": by_key[parsed.get("flatten_to_keys")]}


CONFIGMAP: Final = datasource_kinds.register("configmap")(
    DatasourceKind(
        name="configmap",
        options=ConfigMapOptions,
        sink="sync_stack.sinks.configmap.sink:ConfigMapSink",
        key_formats=(KeyFormat.FLAT, KeyFormat.DOT),
        records={
            UpdateStrategy.KEY_VALUE: "one data key per key",
            UpdateStrategy.DOCUMENT: "one data key",
            UpdateStrategy.FILE: "one data key per file name",
        },
    )
)
